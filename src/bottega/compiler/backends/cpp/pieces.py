"""A loop that is cut where its index passes a number (`cat`): a loop for each piece, in which every choice by place is made already.

In one loop each element chooses its source and clamps its place in both, of which the compiler makes no vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from bottega.compiler.expression import Apply, Cast, Constant, Expression, Gather, Index, walk

MOST_PIECES = 8


def pieces_of(bodies: Sequence[Expression], axis: int, length: int) -> list[tuple[int, int]]:
    """Where the index along an axis is compared with numbers, the pieces between these; empty where there is nothing to cut."""
    nodes = {node for body in bodies for node in walk(body)}
    cuts = {
        int(node.arguments[1].value)
        for node in nodes
        if isinstance(node, Apply)
        and node.function == "lt"
        and node.arguments[0] == Index(axis)
        and isinstance(node.arguments[1], Constant)
    }
    ends = sorted(cut for cut in cuts if 0 < cut < length)
    if not ends or len(ends) >= MOST_PIECES:
        return []
    return list(zip([0, *ends], [*ends, length]))


def within(body: Expression, axis: int, low: int, high: int) -> Expression:
    """The same body for indices of one piece."""

    @cache
    def made(node: Expression) -> Expression:
        if isinstance(node, Gather):
            return replace(node, index=made(node.index))
        if isinstance(node, Cast):
            return replace(node, argument=made(node.argument))
        if not isinstance(node, Apply):
            return node
        if node.function == "where":
            known = _bounds(node.arguments[0], axis, low, high)
            if known is not None and known[0] == known[1]:
                return made(node.arguments[1 if known[0] else 2])
        arguments = tuple(map(made, node.arguments))
        if node.function in ("minimum", "maximum") and _needless(node.function, arguments, axis, low, high):
            return arguments[0]
        if node.function == "sub" and arguments[1] == Constant(0):
            return arguments[0]
        return Apply(node.function, arguments, node.title)

    return made(body)


def _needless(function: str, arguments: Sequence[Expression], axis: int, low: int, high: int) -> bool:
    """Whether a clamp changes no index of the piece."""
    first, second = (_bounds(argument, axis, low, high) for argument in arguments)
    if first is None or second is None:
        return False
    return first[1] <= second[0] if function == "minimum" else first[0] >= second[1]


def _bounds(node: Expression, axis: int, low: int, high: int) -> tuple[int, int] | None:
    """The least and the largest value of what depends on nothing but this index; of a comparison 0 for no and 1 for yes."""
    if isinstance(node, Constant) and isinstance(node.value, int):
        return int(node.value), int(node.value)
    if node == Index(axis):
        return low, high - 1
    if not isinstance(node, Apply) or len(node.arguments) != 2:
        return None
    first, second = (_bounds(argument, axis, low, high) for argument in node.arguments)
    if first is None or second is None:
        return None
    if node.function == "lt":
        return int(first[1] < second[0]), int(first[0] < second[1])
    if node.function == "sub":
        return first[0] - second[1], first[1] - second[0]
    return (first[0] + second[0], first[1] + second[1]) if node.function == "add" else None
