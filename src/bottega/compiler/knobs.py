"""Knobs of a kernel's text: the numbers that a search may change while the structure stays, each with the values to try.

Three kinds: choices of library calls and launches (`answer_choices`); constants that the text marks, as in `TILE = 64  # knobs: 32 64 128` or
`constexpr int TILE = 64;  // knobs: 32 64 128`; and constants whose name says that they are a block, a tile or an unrolling.
Whether a setting is right and pays is for whoever measures it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bottega.compiler.answer_choices import AnswerChange, Span, changed, changes_of, variants
from bottega.compiler.callgraph import CallGraph

_MARK = re.compile(r"(?:#|//)[ \t]*knobs?[ \t]*:[ \t]*(?P<values>\d[\d, \t]*)", re.I)
_NUMBER = re.compile(r"(?P<name>[A-Za-z_]\w*)[^\w\n]*?(?P<value>(?<![\w.])\d{1,6}(?![\w.]))(?=[^\d\n]*$)")
_NAMED = re.compile(
    r"\b(?P<name>(?:BLOCK|TILE|UNROLL|CHUNK|STRIP|GROUP_SIZE|VEC|LANES|num_warps|num_stages)\w*)\b"
    r"(?:[ \t]*:[ \t]*tl\.constexpr)?(?:[ \t]*=[ \t]*|[ \t]+)(?P<value>\d{1,6})(?![\w.])"
)
MOST_VALUES = 8
LARGEST = 1 << 16
MOST_WARPS, MOST_STAGES = 16, 5
MOST_PARSED = 1 << 22
"""Characters, over all changes: of a text of usual length many times what anybody measures."""


@dataclass(frozen=True)
class Knobs:
    """What can be turned in one answer."""

    answer: str
    places: dict[str, list[AnswerChange]]
    """By place, changes in the order in which they are worth trying."""

    @property
    def structure(self) -> str:
        """The same for two answers that differ in the values of their knobs alone."""
        spans = {
            (start, end)
            for changes in self.places.values()
            for change in changes
            for start, end, _ in change.spans
            if start < end
        }
        text = changed(self.answer, [AnswerChange("", "", tuple((start, end, "?") for start, end in spans))])
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

    def settings(self, most: int, promise: Callable[[AnswerChange], float] = lambda change: 1.0) -> list[AnswerChange]:
        """Single changes, those that promise most first; of all places in turn where they promise alike."""
        every = variants(self.places, sum(map(len, self.places.values())))
        return sorted(every, key=promise, reverse=True)[:most]


def knobs_of(answer: str, graph: CallGraph | None) -> Knobs:
    """`graph`: of the task, where its language has a kernel library, whose calls have choices."""
    places = changes_of(answer, graph) if graph is not None else {}
    taken = [span for changes in places.values() for change in changes for span in change.spans]
    for place, changes in _constants(answer).items():
        if not any(_overlap(span, other) for change in changes for span in change.spans for other in taken):
            places[place] = changes
    every = [(place, one) for place, changes in places.items() for one in changes]
    kept: dict[str, list[AnswerChange]] = {}
    for place, one in every[: MOST_PARSED // max(1, len(answer))]:
        if _parses(changed(answer, [one])):
            kept.setdefault(place, []).append(one)
    return Knobs(answer, kept)


def _constants(answer: str) -> dict[str, list[AnswerChange]]:
    """Marked ones first; a name that stands at several places with one value is one knob."""
    found: dict[str, tuple[int, list[int], list[tuple[int, int]]]] = {}
    marked: set[str] = set()
    at = 0
    for line in answer.splitlines(keepends=True):
        mark = _MARK.search(line)
        numbers = _NUMBER.search(line[: mark.start()].rstrip("; \t,)")) if mark else None
        for number in [numbers] if numbers else [] if mark else _NAMED.finditer(line):
            name, value = number["name"], int(number["value"])
            span = (at + number.start("value"), at + number.end("value"))
            if mark:
                values = [int(text) for text in re.findall(r"\b\d{1,6}\b", mark["values"])]
                found[name] = (value, values, [span])
                marked.add(name)
            elif name not in marked:
                known = found.setdefault(name, (value, list(_neighbours(name, value)), []))
                if known[0] == value:
                    known[2].append(span)
        at += len(line)
    return {name: list(_changes(name, *row)) for name, row in found.items()}


def _changes(name: str, value: int, values: Sequence[int], places: Sequence[tuple[int, int]]) -> Iterator[AnswerChange]:
    for other in list(dict.fromkeys(values))[:MOST_VALUES]:
        if other != value and other <= LARGEST:
            spans: tuple[Span, ...] = tuple((start, end, str(other)) for start, end in places)
            yield AnswerChange(name, f"{name}={other}", spans)


def _neighbours(name: str, value: int) -> Iterator[int]:
    """Of a constant that is not marked: half and double, a quarter and fourfold, if it is a power of two."""
    if name == "num_stages":
        yield from (other for other in (value + 1, value - 1, value + 2) if 1 <= other <= MOST_STAGES)
    elif value > 0 and value & (value - 1) == 0:
        largest = MOST_WARPS if name == "num_warps" else LARGEST
        yield from (other for other in (value * 2, value // 2, value * 4, value // 4) if 1 <= other <= largest)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < max(other[1], other[0] + 1) and other[0] < max(one[1], one[0] + 1)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
