"""C++ inside a candidate: the text, its functions and its `for` loops, found by brackets.

No compiler is asked. Comments and strings are blanked first, so that every place found in the blanked text is a place in the real one. What
is not understood is left alone: the judge decides whether a rewritten text is right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bottega.lineage.text_places import TextPlaces

_HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|$)", re.S)
_FOR = re.compile(r"\bfor\s*\(")
_FUNCTION = re.compile(
    r"(?P<mark>extern\s+\"C\"\s+|static\s+inline\s+|inline\s+static\s+|static\s+)(?P<type>[\w:<>\s*&]*?)\b(?P<name>\w+)\s*\("
)
_VARIABLE = re.compile(r"^\s*(?:const\s+)?(?:[\w:]+\s+)+(\w+)\s*=")


@dataclass(frozen=True)
class Span:
    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def holds(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True)
class ForLoop:
    span: Span
    """From its `for` to the end of its body, pragmas left out."""
    header: Span
    """Between the brackets."""
    body: Span
    """One statement, or what stands between the braces."""
    pragmas: tuple[Span, ...]
    """Whole lines right before it, line ends included."""

    @property
    def begin(self) -> int:
        return self.pragmas[0].start if self.pragmas else self.span.start

    def variable(self, text: str) -> str:
        found = _VARIABLE.match(self.header.of(text))
        return found.group(1) if found else ""


@dataclass(frozen=True)
class Function:
    name: str
    exported: bool
    span: Span
    arguments: Span
    body: Span


def blanked(text: str) -> str:
    """The same length, with spaces for comments and strings; `"C"` stays, as it marks what is exported."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] == '"C"' else re.sub(r"[^\n]", " ", found[0]), text)


def closing(text: str, place: int) -> int:
    """Behind the bracket that closes the one at `place`; the text's end where none does."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    close, depth = pairs[text[place]], 0
    for at in range(place, len(text)):
        depth += (text[at] == text[place]) - (text[at] == close)
        if depth == 0:
            return at + 1
    return len(text)


def statement_end(text: str, place: int) -> int:
    """Behind the statement that begins at `place`, of a blanked text."""
    at = place
    while at < len(text) and text[at].isspace():
        at += 1
    if at < len(text) and text[at] == "#":
        line = text.find("\n", at)
        return statement_end(text, len(text) if line < 0 else line)
    if at < len(text) and text[at] == "{":
        return closing(text, at)
    head = re.compile(r"(?:for|if|while)\s*\(").match(text, at)
    if head:
        end = statement_end(text, closing(text, head.end() - 1))
        other = re.compile(r"\s*else\b").match(text, end)
        return statement_end(text, other.end()) if other and head[0].startswith("if") else end
    while at < len(text) and text[at] != ";":
        at = closing(text, at) if text[at] in "({[" else at + 1
    return min(at + 1, len(text))


def statements(text: str, span: Span) -> list[Span]:
    """The statements of a block, pragmas with the loop that they belong to."""
    plain, found, at = blanked(text), [], span.start
    while at < span.end:
        while at < span.end and plain[at].isspace():
            at += 1
        if at >= span.end:
            break
        end = min(statement_end(plain, at), span.end)
        found.append(Span(at, end))
        at = end
    return found


def loops(text: str) -> list[ForLoop]:
    """All counting loops, outer ones before inner ones."""
    plain, found = blanked(text), []
    for match in _FOR.finditer(plain):
        header_end = closing(plain, match.end() - 1)
        end = statement_end(plain, header_end)
        first = header_end
        while first < end and plain[first].isspace():
            first += 1
        braced = first < end and plain[first] == "{"
        body = Span(first + 1, end - 1) if braced else Span(first, end)
        found.append(ForLoop(Span(match.start(), end), Span(match.end(), header_end - 1), body, _pragmas(plain, match.start())))
    return found


def _pragmas(plain: str, place: int) -> tuple[Span, ...]:
    found: list[Span] = []
    line = plain.rfind("\n", 0, place) + 1
    while line > 0 and not plain[line:place].strip():
        before = plain.rfind("\n", 0, line - 1) + 1
        if not plain[before:line].lstrip().startswith("#pragma"):
            break
        found.insert(0, Span(before, line))
        line = place = before
    return tuple(found)


def inner_loops(text: str) -> list[ForLoop]:
    """Loops without a loop in them."""
    every = loops(text)
    return [one for one in every if not any(one is not other and one.span.holds(other.span) for other in every)]


def outer_loops(text: str) -> list[ForLoop]:
    """Loops in no loop."""
    every = loops(text)
    return [one for one in every if not any(one is not other and other.span.holds(one.span) for other in every)]


def functions(text: str) -> list[Function]:
    plain, found = blanked(text), []
    for match in _FUNCTION.finditer(plain):
        brackets = closing(plain, match.end() - 1)
        brace = plain.find("{", brackets)
        if brace < 0 or plain[brackets:brace].strip():
            continue
        end = closing(plain, brace)
        exported = match["mark"].startswith("extern")
        found.append(
            Function(
                match["name"], exported, Span(match.start(), end), Span(match.end(), brackets - 1), Span(brace + 1, end - 1)
            )
        )
    return found


def function_at(text: str, place: int) -> str:
    """The name of the function around a place, for people."""
    return next((each.name for each in functions(text) if each.span.start <= place < each.span.end), "the file")


def replaced(text: str, edits: list[tuple[Span, str]]) -> str:
    """The text with these spans replaced; they do not overlap."""
    for span, new in sorted(edits, key=lambda edit: -edit[0].start):
        text = text[: span.start] + new + text[span.end :]
    return text


def embedded_texts(source: str) -> list[tuple[Span, str]]:
    """Strings of a candidate that hold C++, with their places between the quotation marks. Only raw or plain triple-quoted ones can be edited."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    places, found = TextPlaces(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 'extern "C"' in node.value:
            start, end = places.at(node.lineno, node.col_offset), places.at(node.end_lineno or 1, node.end_col_offset or 0)
            literal = source[start:end]
            quoted = re.match(r'r?("""|\'\'\')', literal)
            if quoted and literal[quoted.end() : -3] == node.value:
                found.append((Span(start + quoted.end(), end - 3), node.value))
    return found


def _said(value: str) -> str:
    """Without comments: a card shows the value in its own words, where a stranger's comment would be read as advice."""
    return " ".join(_COMMENT.sub(" ", value).split())


def in_cpp(source: str, rewrite: Callable[[str], Iterator[tuple[str, str, str]]]) -> Iterator[tuple[str, str, str]]:
    """`rewrite` on each C++ text of a candidate: (text, where, value) come back as whole candidates."""
    with suppress(RecursionError):  # statements that hang on each other by the hundred: not understood
        for span, text in embedded_texts(source):
            for new, where, value in rewrite(text):
                if new != text:
                    yield source[: span.start] + new + source[span.end :], where, _said(value)
