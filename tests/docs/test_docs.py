"""The documentation against the repository: links, anchors, files, flags and pages of commands are what they say."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docs.pages import DOCS, ROOT, Page, navigation, pages

LONGEST_LINE = 120
MAIN_PAGES = (
    "docs/index.md", "docs/quickstart/optimize.md", "docs/quickstart/train.md", "docs/quickstart/judge.md",
    "docs/concepts/architecture.md", "docs/concepts/judge.md", "docs/concepts/answers.md", "docs/concepts/learning.md",
    "docs/results.md", "docs/extending.md",
)  # fmt: skip
MOST_WORDS = 12_000
"""Of the main pages together: an hour of reading."""
HISTORY = ("docs/log/", "CHANGELOG.md")
"""What tells of the past may name what is gone."""
FILE = re.compile(r"(?:[\w.-]+/)+[\w.-]*\.(?:py|toml|md|jsonl|yml)|(?:[a-z_]+/)+")
PLACES = (ROOT, ROOT / "src/bottega")
IMAGINED = ("path", "mine", "kernels", "TASK")
"""Folders of a reader, in examples."""
MADE = ("optimized.py", "original.py", "faster_than_eager.py", "plain.py")
"""Files that commands write."""
OF_BENCHMARKS = ("--rounds", "--workers")
"""Flags of scripts in benchmarks/ whose names stand before them."""
SETTING = re.compile(r"[a-z_][\w.]*=")
CALL = re.compile(r"(?:^|[\s$(/])bottega\s+(?P<words>[a-z].*)$")
API = re.compile(r"^::: (?P<name>bottega[\w.]*)", re.MULTILINE)


def test_no_line_is_above_120_columns() -> None:
    long = [
        f"{page.name}:{number} has {len(line)}"
        for page in pages()
        for number, line in enumerate(page.text.splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert not long, long


def test_the_navigation_names_every_page_once() -> None:
    named = navigation()
    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_internal_links_and_anchors_resolve() -> None:
    wrong = []
    for page in pages():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            path = (page.path.parent / target).resolve() if target else page.path
            if not path.exists():
                wrong.append(f"{page.name}: {link}: no such file")
            elif DOCS in page.path.parents and DOCS not in path.parents:
                wrong.append(f"{page.name}: {link}: lies outside of the site")
            elif anchor and anchor not in Page(path).anchors:
                wrong.append(f"{page.name}: {link}: no such heading")
    assert not wrong, wrong


def test_files_that_are_named_exist() -> None:
    """Of what looks like a path in the repository: every Python file, and whatever lies below a folder that there is."""
    tops = {path.name for place in PLACES for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")}
    missing = [
        f"{page.name}: {text}"
        for page in pages()
        if not page.name.startswith(HISTORY)
        for code in page.code
        for text in re.split(r"[\s,=]+", code)
        if FILE.fullmatch(text) and not any((place / text).exists() for place in PLACES)
        if text.split("/")[0] in tops or (text.endswith(".py") and not text.startswith(IMAGINED))
    ]
    assert not missing, missing


def test_pages_that_the_code_names_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("src", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/]+\.md", path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not wrong, wrong


def test_files_that_are_named_without_a_folder_exist() -> None:
    there = {path.name for folder in ("src", "benchmarks", "examples", "tests") for path in (ROOT / folder).rglob("*.py")}
    missing = [
        f"{page.name}: {code}"
        for page in pages()
        if not page.name.startswith(HISTORY)
        for code in page.inline
        if re.fullmatch(r"[a-z_]+\.py", code) and code not in there | set(MADE)
    ]
    assert not missing, missing


def test_commands_in_the_pages_have_the_flags_and_settings_that_they_name() -> None:
    tool = command_pages()
    wrong, seen = [], 0
    for page in pages():
        if page.name.startswith(HISTORY):
            continue
        for line in page.code:
            call = CALL.search(re.split(r"\s#\s", line)[0])
            found = tool.find(words(call["words"])) if call else None
            if found is None:
                continue
            name, command, rest = found
            seen += 1
            flags = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)} - tool.flags(command)
            free = [word for before, word in pairwise(["", *rest]) if before not in tool.valued(command)]
            keys = {word.split("=")[0] for word in free if SETTING.match(word)}
            if flags or (tool.keys(name) and keys - tool.keys(name)):
                wrong.append(f"{page.name}: {line}: {', '.join(sorted(flags | (keys - tool.keys(name))))}")
    assert seen > 100
    assert not wrong, wrong


def test_flags_that_are_spoken_of_exist() -> None:
    """In inline code that begins with a flag, of whichever command."""
    tool = command_pages()
    every = [each for command in tool.commands().values() for each in (command, *tool.subcommands(command).values())]
    known = set.union(*(tool.flags(command) for command in every)) | set(OF_BENCHMARKS)
    wrong = [
        f"{page.name}: {code}"
        for page in pages()
        if not page.name.startswith(HISTORY)
        for code in page.inline
        if code.startswith("--") and set(re.findall(r"--[a-z][a-z-]*", code)) - known
    ]
    assert not wrong, wrong


def test_commands_that_the_pages_name_exist() -> None:
    tool = command_pages()
    wrong = [
        f"{page.name}: {line}"
        for page in pages()
        if not page.name.startswith(HISTORY)
        for line in page.code
        if (call := CALL.search(line)) and line.lstrip().startswith("bottega ") and tool.find(words(call["words"])) is None
    ]
    assert not wrong, wrong


def test_python_in_the_pages_parses_and_imports_what_there_is() -> None:
    missing = [
        f"{page.name}: {node.module}.{alias.name}"
        for page in pages()
        for block in page.blocks("python")
        for node in ast.walk(ast.parse(block, filename=page.name))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bottega")
        for alias in node.names
        if not defined(f"{node.module}.{alias.name}")
    ]
    assert not missing, missing


def test_presets_that_the_pages_name_exist() -> None:
    presets = {path.stem for path in (ROOT / "src/bottega").rglob("presets/*.toml")}
    named = {
        (page.name, found)
        for page in pages()
        if not page.name.startswith(HISTORY)
        for line in page.code
        for found in re.findall(r"--preset[ =]([a-z][\w-]*)", line)
    }
    assert named
    assert {preset for _, preset in named} <= presets, sorted(named)


def test_the_pages_of_commands_are_what_the_command_line_says() -> None:
    stale = [path.name for path, text in command_pages().pages().items() if not path.exists() or path.read_text() != text]
    assert not stale, f"{stale}: run `make docs` and commit what it changes"


def test_the_api_pages_name_what_there_is() -> None:
    names = [found["name"] for page in pages() for found in API.finditer(page.text)]
    assert names
    missing = [name for name in names if not defined(name)]
    assert not missing, missing


def test_the_main_pages_can_be_read_in_an_hour() -> None:
    counted = {name: len((ROOT / name).read_text(encoding="utf-8").split()) for name in MAIN_PAGES}
    assert sum(counted.values()) <= MOST_WORDS, counted


@pytest.mark.slow
def test_the_python_of_the_quickstart_judges() -> None:
    (block,) = [text for text in Page(DOCS / "quickstart/judge.md").blocks("python") if "Judge(" in text]
    ran = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    right = ("faster", "same", "slower", "ambiguous")  # by how busy the machine is
    assert ran.stdout.startswith(right), ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="`make docs` installs it")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site/concepts/judge/index.html").exists()


def words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an apostrophe in a sentence
        return text.split()


def defined(name: str) -> bool:
    """Whether a dotted name is a module of ours, or a name that one binds at its top; nothing is imported."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        folder = (ROOT / "src").joinpath(*parts[:length])
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if file.exists():
            rest = parts[length:]
            return not rest or rest[0] in top_names(ast.parse(file.read_text(encoding="utf-8")))
    return False


def top_names(module: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def command_pages() -> Any:
    """docs/tools/command_pages.py, which is no part of a package."""
    path = DOCS / "tools/command_pages.py"
    specification = importlib.util.spec_from_file_location("command_pages", path)
    assert specification and specification.loader
    module = sys.modules.get("command_pages") or importlib.util.module_from_spec(specification)
    if "command_pages" not in sys.modules:
        sys.modules["command_pages"] = module
        specification.loader.exec_module(module)
    assert isinstance(module, ModuleType)
    return module
