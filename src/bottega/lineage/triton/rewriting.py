"""A Triton rule from two functions on a parsed text: nodes that change, with what they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bottega.lineage.rule import Edit, FunctionRule, Rule, Technique
from bottega.lineage.triton.text import Node, TritonText, triton_text

Change = tuple[Sequence[tuple[Node, str]], str, str]
"""Nodes with their new text, where, and the value."""


def triton_rule(
    technique: Technique,
    undo: Callable[[TritonText], Iterator[Change]],
    redo: Callable[[TritonText, str], Iterator[Change]],
) -> Rule:
    def take_out(source: str) -> Iterator[Edit]:
        found = triton_text(source)
        yield from _edits(found, undo(found)) if found else ()

    def put_in(source: str, value: str) -> Iterator[Edit]:
        found = triton_text(source)
        yield from _edits(found, redo(found, value)) if found else ()

    return FunctionRule(technique, take_out, put_in)


def _edits(found: TritonText, changes: Iterator[Change]) -> Iterator[Edit]:
    for nodes, where, value in changes:
        new = found.replaced(nodes) if nodes else found.text
        if new != found.text:
            yield Edit(new, where, value)
