"""A C++ rule from two functions on C++ text: they see what lies inside the candidate's string, and give it back changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bottega.lineage.cpp.text import in_cpp
from bottega.lineage.rule import Edit, FunctionRule, Rule, Technique

Change = tuple[str, str, str]
"""The new text, where it was changed, and the value."""


def cpp_rule(
    technique: Technique, undo: Callable[[str], Iterator[Change]], redo: Callable[[str, str], Iterator[Change]]
) -> Rule:
    def take_out(source: str) -> Iterator[Edit]:
        yield from (Edit(*change) for change in in_cpp(source, undo))

    def put_in(source: str, value: str) -> Iterator[Edit]:
        yield from (Edit(*change) for change in in_cpp(source, lambda text: redo(text, value)))

    return FunctionRule(technique, take_out, put_in)


def by_example(text: str, value: str) -> Iterator[Change]:
    """For a rule whose forward step depends on the kernel's own code: the card's example is applied instead (`lineage/example.py`)."""
    yield from ()
