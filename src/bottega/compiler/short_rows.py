"""Reductions over a handful of elements, written out: a sum of four terms is elementwise work, which vectorises along the other dimensions."""

from __future__ import annotations

import functools
import itertools
import math

from bottega.compiler.expression import Apply, Constant, Expression, Gather, Index, Load, Name, apply, replace, walk, with_views
from bottega.compiler.kernel import Kernel, Map, RowProgram, StoreOp
from bottega.compiler.view import View

MOST, SHORTEST = 8, 8
"""Elements of such a row, and of the last dimension that is left: no vector is made of fewer."""
MOST_OPERATIONS = 512
"""Of all terms together: longer texts take a compiler minutes."""
JOINED = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def written_out(kernel: Kernel) -> Kernel:
    """The map that computes the same as such a row program; any other kernel as it is."""
    if not isinstance(kernel, RowProgram) or kernel.element_stores or not kernel.kept or kernel.kept[-1] < SHORTEST:
        return kernel
    nodes = [node for reduction in kernel.reductions for node in walk(reduction.body)]
    plain = all("float" in node.dtype for node in nodes if isinstance(node, Load))
    plain &= not any(isinstance(node, Gather) for node in nodes)
    plain &= math.prod(kernel.reduced) * sum(isinstance(node, Apply) for node in nodes) <= MOST_OPERATIONS
    if math.prod(kernel.reduced) > MOST or not plain or any(r.operation not in JOINED for r in kernel.reductions):
        return kernel
    known: dict[Expression, Expression] = {}
    for reduction in kernel.reductions:
        places = itertools.product(*map(range, kernel.reduced))
        terms = [replace(_at(reduction.body, kernel, place), known) for place in places]
        known[Name(reduction.name)] = functools.reduce(functools.partial(apply, JOINED[reduction.operation]), terms)
    stores = tuple(StoreOp(store.view, replace(store.body, known), store.dtype) for store in kernel.row_stores)
    return Map(kernel.kept, stores, kernel.origin)


def _at(body: Expression, kernel: RowProgram, place: tuple[int, ...]) -> Expression:
    """A body over kept and reduced loops, at one place of the row."""
    count = len(kernel.kept)

    def fixed(view: View) -> View:
        offset = view.offset + sum(at * stride for at, stride in zip(place, view.strides[count:]))
        return View(view.buffer, kernel.kept, view.strides[:count], offset, view.text)

    indices: dict[Expression, Expression] = {
        node: Constant(place[node.axis - count]) for node in walk(body) if isinstance(node, Index) and node.axis >= count
    }
    found = with_views(body, fixed, indices)
    assert found is not None
    return found
