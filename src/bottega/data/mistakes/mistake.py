"""What a mistake is: a name, in which languages it is made, what cures it, and a change of the text."""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bottega.languages import Language

Change = Callable[[str, random.Random], str | None]
"""A source in, the same with one mistake out; None where there is nothing to get wrong."""
Part = Callable[[str], list[tuple[int, int]]]
"""Which stretches of a source a change may touch."""


Applies = Callable[[Language], bool]
"""In which languages a mistake can be made."""


def everywhere(language: Language) -> bool:
    return True


def in_strings(language: Language) -> bool:
    return language.embedded


def in_strings_on_cpu(language: Language) -> bool:
    return language.embedded and not language.on_gpu


def in_strings_on_gpu(language: Language) -> bool:
    return language.embedded and language.on_gpu


def python_kernels(language: Language) -> bool:
    return language.kernel_library


@dataclass(frozen=True)
class Mistake:
    name: str
    applies: Applies
    cure: str
    """One sentence, as a writer says what it changed."""
    change: Change


def anywhere(pattern: str, put: str | Callable[[re.Match[str]], str | None], part: Part, every: bool = False) -> Change:
    """Replace one occurrence, drawn, or all of them, within the parts of a source. A replacement of None passes."""
    expression = re.compile(pattern, re.M)

    def change(source: str, draw: random.Random) -> str | None:
        found = [match for start, end in part(source) for match in expression.finditer(source, start, end)]
        made = [(match, match.expand(put) if isinstance(put, str) else put(match)) for match in found]
        usable = [(match, text) for match, text in made if text is not None and text != match.group()]
        if not usable:
            return None
        chosen = usable if every else [draw.choice(usable)]
        for match, text in reversed(chosen):
            source = source[: match.start()] + str(text) + source[match.end() :]
        return source

    return change


def mistake(name: str, applies: Applies, cure: str, *changes: Change) -> Mistake:
    """Of several changes, the first that finds something to change."""

    def change(source: str, draw: random.Random) -> str | None:
        return next((made for one in changes if (made := one(source, draw)) is not None), None)

    return Mistake(name, applies, cure, change)


def native(source: str) -> list[tuple[int, int]]:
    """The C++ or CUDA text within a Python source: long strings with a function in them."""
    return [
        span
        for node, span in _placed(source, ast.Constant)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 'extern "C"' in node.value
    ]


def kernels(source: str) -> list[tuple[int, int]]:
    """Triton functions: those with a decorator that says jit."""
    return [
        span
        for node, span in _placed(source, ast.FunctionDef)
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list)
    ]


def module(source: str) -> list[tuple[int, int]]:
    """The class that is called, without its kernels."""
    return [span for node, span in _placed(source, ast.ClassDef) if isinstance(node, ast.ClassDef)]


def forward(source: str) -> list[tuple[int, int]]:
    return [
        span for node, span in _placed(source, ast.FunctionDef) if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]


def outside_strings(source: str) -> list[tuple[int, int]]:
    """Python that is not inside a string."""
    spans = sorted(span for node, span in _placed(source, ast.Constant) if isinstance(getattr(node, "value", None), str))
    places, at = [], 0
    for start, end in spans:
        places.append((at, start))
        at = max(at, end)
    return [*places, (at, len(source))]


def _placed(source: str, kind: type[ast.AST]) -> Sequence[tuple[ast.AST, tuple[int, int]]]:
    """Nodes of a kind with where they stand in the text, as characters."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode(errors="ignore"))

    found = []
    for node in ast.walk(tree):
        if isinstance(node, kind) and getattr(node, "end_lineno", None) is not None:
            begun = getattr(node, "decorator_list", None)
            line = min([node.lineno, *(one.lineno for one in begun)]) if begun else node.lineno  # type: ignore[attr-defined]
            column = 0 if begun else node.col_offset  # type: ignore[attr-defined]
            found.append((node, (at(line, column), at(node.end_lineno, node.end_col_offset))))  # type: ignore[attr-defined]
    return found
