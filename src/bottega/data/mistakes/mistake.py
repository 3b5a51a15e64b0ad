"""What a mistake is: a name, in which languages it is made, what cures it, and a change of the text."""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bottega.data.mistakes.table import COMPUTED, WORDS
from bottega.languages import Language

Change = Callable[[str, random.Random], str | None]
"""A source in, the same with one mistake out; None where there is nothing to get wrong."""
Span = tuple[int, int]

APPLIES: dict[str, Callable[[Language], bool]] = {
    "everywhere": lambda language: True,
    "in_strings": lambda language: language.embedded,
    "in_strings_on_cpu": lambda language: language.embedded and not language.on_gpu,
    "in_strings_on_gpu": lambda language: language.embedded and language.on_gpu,
    "python_kernels": lambda language: language.kernel_library,
}
"""In which languages a mistake can be made."""
_ROW = re.compile(r"(\w+) \((\w+)\): (.*)")
_CHANGE = re.compile(r" +(\w+)(\*?): (.*?) =>(?: (.*))?")


@dataclass(frozen=True)
class Mistake:
    name: str
    applies: Callable[[Language], bool]
    cure: str
    """One sentence, as a writer says what it changed."""
    changes: tuple[Change, ...]

    def change(self, source: str, draw: random.Random) -> str | None:
        """Of several changes, the first that finds something to change."""
        return next((made for one in self.changes if (made := one(source, draw)) is not None), None)


def read_mistakes(table: str) -> tuple[Mistake, ...]:
    found: list[Mistake] = []
    for line in table.strip("\n").split("\n"):
        if row := _ROW.fullmatch(line):
            found.append(Mistake(row[1], APPLIES[row[2]], row[3], ()))
            continue
        change = _CHANGE.fullmatch(line)
        assert change is not None, line
        last = found.pop()
        found.append(
            replace(last, changes=(*last.changes, _change(change[3], change[4] or "", PARTS[change[1]], bool(change[2]))))
        )
    return tuple(found)


def _change(pattern: str, put: str, part: Callable[[str], list[Span]], every: bool) -> Change:
    """Replaces one occurrence, drawn, or all of them, within the parts of a source."""
    for word, text in WORDS.items():
        pattern = pattern.replace(word, text)
    expression, computed = re.compile(pattern, re.M), COMPUTED.get(put.strip("{}")) if put.startswith("{") else None

    def change(source: str, draw: random.Random) -> str | None:
        found = [match for start, end in part(source) for match in expression.finditer(source, start, end)]
        made = [(match, computed(match) if computed else match.expand(put)) for match in found]
        usable = [(match, text) for match, text in made if text != match.group()]
        if not usable:
            return None
        for match, text in reversed(usable if every else [draw.choice(usable)]):
            source = source[: match.start()] + text + source[match.end() :]
        return source

    return change


def native(source: str) -> list[Span]:
    """The C++ or CUDA text within a Python source: long strings with a function in them."""
    return [
        span
        for node, span in _placed(source, ast.Constant)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 'extern "C"' in node.value
    ]


def kernels(source: str) -> list[Span]:
    """Triton functions: those with a decorator that says jit."""
    return [
        span
        for node, span in _placed(source, ast.FunctionDef)
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list)
    ]


def module(source: str) -> list[Span]:
    """The class that is called, without its kernels."""
    return [span for node, span in _placed(source, ast.ClassDef) if isinstance(node, ast.ClassDef)]


def forward(source: str) -> list[Span]:
    return [
        span for node, span in _placed(source, ast.FunctionDef) if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]


def outside_strings(source: str) -> list[Span]:
    """Python that is not inside a string."""
    spans = sorted(span for node, span in _placed(source, ast.Constant) if isinstance(getattr(node, "value", None), str))
    places, at = [], 0
    for start, end in spans:
        places.append((at, start))
        at = max(at, end)
    return [*places, (at, len(source))]


def constructor(source: str) -> list[Span]:
    """The line of `ModelNew.__init__`."""
    named = re.search(r"class ModelNew\b", source)
    method = source.find("def __init__(", named.end()) if named else -1
    end = source.find(")", method) if method >= 0 else -1
    return [(named.start(), end + 1)] if named and end >= 0 else []


PARTS: dict[str, Callable[[str], list[Span]]] = {
    "code": lambda source: native(source) or kernels(source),
    "native": native,
    "kernels": kernels,
    "module": module,
    "forward": forward,
    "outside": outside_strings,
    "constructor": constructor,
    "whole": lambda source: [(0, len(source))],
}
"""Which stretches of a source a change may touch."""


def _placed(source: str, kind: type[ast.AST]) -> Sequence[tuple[ast.AST, Span]]:
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
