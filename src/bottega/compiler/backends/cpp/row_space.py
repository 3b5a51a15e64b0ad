"""A row kernel once its loops have names: kept and reduced axes, and bodies made ready to be written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.map import fixed, pointers
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, named, ordered_loops
from bottega.compiler.expression import (
    Apply,
    Constant,
    Expression,
    Name,
    apply,
    walk,
    with_views,
)
from bottega.compiler.expression import replace as swapped
from bottega.compiler.kernel import Reduction, RowProgram, StoreOp
from bottega.compiler.view import View, contiguous_strides

SIMD_REDUCTIONS, ONCE, SPLIT = "simd_reductions", "elements_once", "split_rows"
COUNT, COUNT_LESS_ONE = "row length", "row length less one"
_COSTLY = "exp exp2 expm1 log log2 log1p sin cos tan tanh erf sigmoid pow sinh cosh asinh acosh atanh atan"
COSTLY = frozenset(_COSTLY.split())
FEW, LONG = 8, 65536
SCRATCH_LIMIT = 1 << 18


@dataclass
class RowSpace:
    """The kernel's loops once they have names, and its bodies made ready."""

    function: FunctionWriter
    kept: list[Axis]
    reduced: list[Axis]
    rank: int
    position: View
    """A dense look over the reduced axes: the place in the row."""
    reductions: tuple[Reduction, ...]
    row_stores: tuple[StoreOp, ...]
    element_stores: tuple[StoreOp, ...]
    names: dict[str, tuple[str, str]]

    @property
    def axes(self) -> list[Axis]:
        return [*self.kept, *self.reduced]

    @property
    def rows(self) -> int:
        return math.prod(axis.length for axis in self.kept)

    @property
    def length(self) -> int:
        return math.prod(axis.length for axis in self.reduced)

    def emitter(self) -> CppEmitter:
        space = LoopSpace(self.function, self.axes)
        return CppEmitter(self.function, space.place, self.names, index_names(self.axes, self.rank))


def row_space(function: FunctionWriter, kernel: RowProgram) -> RowSpace:
    rank = len(kernel.kept) + len(kernel.reduced)
    row_stores = tuple(
        replace(store, view=_padded(store.view, rank), body=_padded_loads(store.body, rank)) for store in kernel.row_stores
    )
    bodies = [reduction.body for reduction in kernel.reductions]
    outputs = [*row_stores, *kernel.element_stores]
    every = [*bodies, *(store.body for store in outputs)]
    operands = loads(every) + [store.view for store in outputs]
    lead = max(loads(bodies) or operands, key=lambda view: _extent(view, kernel.kept + kernel.reduced))
    pointers(function, every, outputs)
    blank = tuple(1 for _ in kernel.reduced)
    kept = ordered_loops((*kernel.kept, *blank), operands, every, lead)
    reduced = ordered_loops((*(1 for _ in kernel.kept), *kernel.reduced), operands, every, lead)
    if any(reduction.operation.startswith("arg") for reduction in kernel.reductions):
        reduced.sort(key=lambda loop: loop.axes)
    kept = [loop for loop in kept if loop.axes]
    # Names follow memory, outermost first, so that an element is `(b * channels + c) * inner + i` whichever axis is reduced.
    loops = [*kept, *reduced]
    order = sorted(range(len(loops)), key=lambda at: -lead.strides[loops[at].axes[-1]] if loops[at].axes else 0)
    by_memory = named(function, [loops[at] for at in order], operands)
    axes = [by_memory[order.index(at)] for at in range(len(loops))]
    position = View("", kernel.kept + kernel.reduced, (*(0 for _ in kernel.kept), *contiguous_strides(kernel.reduced)))
    length = " * ".join(axis.size for axis in axes[len(kept) :])
    names = {COUNT: (length if " " not in length else f"({length})", "int64_t"), COUNT_LESS_ONE: (f"({length} - 1)", "int64_t")}
    total = math.prod(kernel.reduced)
    inner = axes[len(kept) :]

    def ready(body: Expression, elements: bool = False) -> Expression:
        body = _counted(body, total)
        return _multiplied(body, inner) if elements else body

    return RowSpace(
        function,
        axes[: len(kept)],
        inner,
        rank,
        position,
        tuple(replace(reduction, body=ready(reduction.body)) for reduction in kernel.reductions),
        tuple(replace(store, body=ready(store.body)) for store in row_stores),
        tuple(replace(store, body=ready(store.body, True)) for store in kernel.element_stores),
        names,
    )


def _padded(view: View, rank: int) -> View:
    missing = rank - len(view.strides)
    return replace(view, shape=view.shape + (1,) * missing, strides=view.strides + (0,) * missing, axes=())


def _padded_loads(body: Expression, rank: int) -> Expression:
    padded = with_views(body, lambda view: _padded(view, rank))
    assert padded is not None
    return padded


def _extent(view: View, shape: tuple[int, ...]) -> tuple[int, int]:
    return math.prod(size for size, stride in zip(shape, view.strides) if stride), max(view.strides, default=0)


def _counted(body: Expression, total: int) -> Expression:
    """The row's length by its name instead of its number."""
    swap: dict[Expression, Expression] = {}
    for node in walk(body):
        if isinstance(node, Apply) and node.function == "div" and isinstance(node.arguments[1], Constant) and total > 2:
            value = node.arguments[1].value
            if value in (total, total - 1) and (node.arguments[1].text or value > 64) and "self." not in node.arguments[1].text:
                swap[node.arguments[1]] = Name(COUNT if value == total else COUNT_LESS_ONE)
    return swapped(body, swap)


def _multiplied(body: Expression, inner: Sequence[Axis]) -> Expression:
    """Division by what is the same for the whole row becomes one reciprocal and multiplications."""

    @cache
    def multiplied(node: Expression) -> Expression:
        if not isinstance(node, Apply):
            return node
        arguments = tuple(map(multiplied, node.arguments))
        if (
            node.function == "div"
            and not isinstance(arguments[1], Constant)
            and fixed(arguments[1], inner)
            and not fixed(arguments[0], inner)
        ):
            return apply("mul", arguments[0], apply("reciprocal", arguments[1]))
        return Apply(node.function, arguments)

    return multiplied(body)


def result_kind(operation: str, kind: str) -> str:
    if operation.startswith("arg"):
        return "int64_t"
    if operation in ("any", "all"):
        return "bool"
    return "int64_t" if kind == "bool" and operation in ("sum", "prod") else kind


def spelled(name: str) -> str:
    return name if name.isidentifier() else "".join(c if c.isalnum() else "_" for c in name)
