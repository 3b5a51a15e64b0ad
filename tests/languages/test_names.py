"""No package but `languages` compares or lists the names of languages: a new language is one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bottega
from bottega.languages import LANGUAGES

SOURCE = Path(bottega.__file__).parent
NAMES = frozenset(LANGUAGES.names)
TOLD_APART = NAMES - {"cuda", "torch"}
"""`cuda` is a device too and `torch` a package: these two count only where a language is meant."""
OTHER_MEANINGS = {
    "runtime/__init__.py": "its functions are called cpp and cuda",
    "runtime/cplusplus.py": "part of a hash",
    "backbone/local.py": "asks for the package triton",
    "train/lm_head_loss.py": "asks for the package triton",
    "judge/fingerprint.py": "versions of packages",
    "judge/baseline_cache.py": "versions of packages, and a folder of torch's compiler",
    "bench/caveats.py": "versions of packages",
    "judge/trusted/process.py": "a folder of torch's compiler",
    "data/callgraph_names.py": "names that a generated file uses",
    "data/renaming.py": "names that a generated file uses",
    "compiler/model_class.py": "names that a generated file uses",
    "compiler/module_frame.py": "packages that a generated file imports",
    "compiler/step_compiler.py": "names that a generated file uses",
    "compiler/layers/render.py": "names that a generated file uses",
    "compiler/backends/triton/kernel_writer.py": "names that a generated file uses",
    "compiler/library/index.py": "a folder of the kernel library",
    "compiler/library/cpp/strings.py": "the function of the runtime that an answer calls",
    "compiler/backends/cpp/write.py": "the function of the runtime that a generated file calls",
}


def files() -> list[Path]:
    skipped = ("languages", "tasks/suite", "app/demo")
    return [path for path in sorted(SOURCE.rglob("*.py")) if not path.relative_to(SOURCE).as_posix().startswith(skipped)]


def strings(node: ast.AST) -> list[str]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def offences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            if NAMES & set(strings(node)) and "language" in (text := ast.unparse(node)).lower():
                yield node.lineno, f"compares names: {text}"
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            parts = [one for one in (node.keys if isinstance(node, ast.Dict) else node.elts) if isinstance(one, ast.Constant)]
            if len({one.value for one in parts} & (NAMES - {"torch"})) > 1:
                yield node.lineno, f"lists names: {ast.unparse(node)[:80]}"
        elif isinstance(node, ast.Constant) and node.value in TOLD_APART:
            yield node.lineno, f"names {node.value}"


def test_only_the_languages_package_knows_names() -> None:
    wrong = []
    for path in files():
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text()
        if name not in OTHER_MEANINGS and any(language in text for language in NAMES):
            wrong += [f"{name}:{line} {what}" for line, what in offences(ast.parse(text))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "if candidate.language == 'cuda': pass",
        "x = 'python' if language in ('torch',) else ''",
        "NAMES = {'cuda': 1, 'triton': 2}",
        "GPU = ('cuda', 'gluon')",
        "choose('cpp')",
    ],
)
def test_the_rule_sees_what_it_forbids(text: str) -> None:
    assert list(offences(ast.parse(text)))


@pytest.mark.parametrize("text", ["if device == 'cuda': pass", "DEVICES = ('cpu', 'cuda')", "import_module('torch')"])
def test_the_rule_lets_devices_and_packages_be(text: str) -> None:
    assert not list(offences(ast.parse(text)))
