"""The largest few of a row, which come as a chain of reductions: the largest, its place, the largest without that place, and so on.

In vectors each link computes the row again, with a choice by place for every link before it. With the row in memory, what was found is overwritten
in its place, and the search for it ends where it is: a fifth of the time for four of 32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.row_body import reduction_body
from bottega.compiler.backends.cpp.row_cache import RowCache
from bottega.compiler.backends.cpp.row_space import RowSpace
from bottega.compiler.backends.cpp.sweeps import first_of, sweep
from bottega.compiler.expression import Apply, Cast, Constant, Expression, Gather, Index, Load, Name, apply, walk
from bottega.compiler.kernel import Reduction
from bottega.compiler.library.cpp.sweeps import TOP_OF


@dataclass(frozen=True)
class Top:
    """Stands for the whole chain."""

    first: Reduction
    names: tuple[str, ...]
    """Of the values, the largest first."""


def joined_tops(reductions: Sequence[Reduction]) -> list[Reduction | Top]:
    """The reductions with each chain as one."""
    found: list[Reduction | Top] = []
    at = 0
    while at < len(reductions):
        names, last = [reductions[at].name], at
        while last + 2 < len(reductions) and _follows(reductions[last], reductions[last + 1], reductions[last + 2]):
            last += 2
            names.append(reductions[last].name)
        found.append(Top(reductions[at], tuple(names)) if last > at else reductions[at])
        at = last + 1
    return found


def _follows(best: Reduction, place: Reduction, following: Reduction) -> bool:
    body = best.body
    if (best.operation, place.operation, following.operation) != ("max", "min", "max") or not isinstance(place.body, Apply):
        return False
    if any(isinstance(node, Load | Gather | Cast) and node.dtype == "float64" for node in walk(body)):
        return False
    found = apply("or", apply("eq", body, Name(best.name)), apply("ne", body, body))
    index = place.body.arguments[1] if place.body.function == "where" else None
    if not isinstance(index, Index) or place.body.arguments[0] != found or not isinstance(place.body.arguments[2], Constant):
        return False
    taken: Expression = apply("where", apply("eq", index, Name(place.name)), -math.inf, body)
    return following.body == taken


def write_top(space: RowSpace, emitter: CppEmitter, top: Top, cache: RowCache | None) -> list[str]:
    function = space.function
    body = reduction_body(space, emitter, top.first, cache)
    for needed in (sweep(function, "max", body.kind, False), first_of(function, body.kind)):
        assert needed in TOP_OF
    function.prelude.add("top_of", TOP_OF)
    best = function.fresh("best", "largest")
    for number, name in enumerate(top.names):
        space.names[name] = (f"{best}[{number}]", body.kind)
    inner = " ".join([*body.statements, f"return {body.text};"])
    index, size = body.axes[0].index, body.axes[0].size
    return [
        *body.lines,
        f"float {best}[{len(top.names)}];",
        f"top_of<{len(top.names)}, {space.length}>({size}, {best}, [=](int64_t {index}) {{ {inner} }});",
    ]
