"""A rule: one optimisation that can be taken out of a kernel (undo) and put into a plain one (redo), without a model.

A rule knows a technique and no particular kernel. What a kernel used (a number of warps, a clause) is the edit's `value`; a card carries it,
and `redo` gets nothing but that and the text it is to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bottega.core.errors import UsageError
from bottega.core.plugins import resolve
from bottega.core.skill import NOTHING_MORE, Conditions
from bottega.languages import language_named


@dataclass(frozen=True)
class Edit:
    """A whole candidate after one change."""

    source: str
    where: str
    """The function, launch or loop that was changed."""
    value: str = ""
    """What the optimised text has: enough for the same rule to put it into another text."""


@dataclass(frozen=True)
class Technique:
    """What a card says of a rule's optimisation, whatever kernel it was found in."""

    name: str
    """Also the name of the feature that a kernel has with it."""
    intent: str
    anchor: str
    how: str
    conditions: Conditions
    failures: tuple[str, ...]
    tags: tuple[str, ...] = ()


MOST_TEXT, MOST_LINES, LONGEST_LINE, DEEPEST = 64 << 10, 3_000, 1_000, 64
"""What rules read: kernels that people write. They match brackets and lines without a parser, and a text made to be slow for them ends here."""

Rewriter = Callable[[str], Iterator[Edit]]


class Rule(Protocol):
    @property
    def technique(self) -> Technique: ...

    def undo(self, source: str) -> Iterator[Edit]:
        """Texts without the optimisation, the most thorough first."""
        ...

    def redo(self, source: str, value: str) -> Iterator[Edit]:
        """Texts with the optimisation, where there is a place for it."""
        ...


@dataclass(frozen=True)
class FunctionRule:
    """A rule of two functions."""

    technique: Technique
    take_out: Rewriter
    put_in: Callable[[str, str], Iterator[Edit]]

    def undo(self, source: str) -> Iterator[Edit]:
        return self.take_out(source)

    def redo(self, source: str, value: str) -> Iterator[Edit]:
        return self.put_in(source, value)


def conditions(
    data_types: str = NOTHING_MORE,
    layout: str = NOTHING_MORE,
    storage: str = NOTHING_MORE,
    pipeline: str = NOTHING_MORE,
    hardware: str = NOTHING_MORE,
) -> Conditions:
    return Conditions(data_types, layout, storage, pipeline, hardware)


def refuse_unreadable(name: str, source: str) -> None:
    """Raises `UsageError` for a text that rules would take very long over, or lose their way in."""
    depth = deepest = 0
    for sign in source:
        depth = depth + 1 if sign in "([{" else max(0, depth - 1) if sign in ")]}" else depth
        deepest = max(deepest, depth)
    lines = source.splitlines()
    longest = max(map(len, lines), default=0)
    for found, most, what in (
        (len(source), MOST_TEXT, "characters"),
        (len(lines), MOST_LINES, "lines"),
        (longest, LONGEST_LINE, "characters in a line"),
        (deepest, DEEPEST, "brackets in each other"),
    ):
        if found > most:
            raise UsageError(f"{name}: has {found:,} {what}, and rules read at most {most:,}; a model may (--backbone)")


def rules_of(language: str) -> Sequence[Rule]:
    """A language names its own rules. Raises `UsageError` where it has none."""
    place = language_named(language).rewrites
    if not place:
        raise UsageError(f"no rules take {language} kernels apart; name a model with --backbone")
    rules: Sequence[Rule] = resolve(place)
    return rules
