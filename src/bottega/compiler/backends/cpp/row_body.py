"""The loops over one row, for C++ and CUDA alike: a reduction's body and the stores of a row's elements, with the row cache in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.map import invariants
from bottega.compiler.backends.cpp.row_cache import RowCache
from bottega.compiler.backends.cpp.row_space import RowSpace, result_kind, spelled
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, joined, loads
from bottega.compiler.kernel import Reduction
from bottega.compiler.view import View


@dataclass(frozen=True)
class ReductionBody:
    name: str
    """The variable that holds the result."""
    kind: str
    """The C++ type of an element, and of the result."""
    result: str
    axes: list[Axis]
    inside: LoopSpace
    lines: list[str]
    """What is computed once, before the loops."""
    statements: list[str]
    """What is computed for each element before `text`."""
    text: str


def reduction_body(
    space: RowSpace, emitter: CppEmitter, reduction: Reduction, cache: RowCache | None, more: Sequence[View] = ()
) -> ReductionBody:
    """`more` are views that the loops must tell apart beside those of the body."""
    function, body = space.function, reduction.body
    kind = emitter.kind(body)
    lines = invariants(emitter, [body], space.reduced)
    cached = cache.views_in(body) if cache else []
    axes, inside, local = _loops(space, emitter, [*loads([body]), *cached, *more])
    name = function.fresh(spelled(reduction.name), f"{spelled(reduction.name)}_row")
    if cache:
        cache.enter(local, inside, body)
    statements, (text,) = local.statements([body], [kind])
    if cache:
        text, statements = cache.leave(local, inside, body, text, statements)
    function.release(statements)
    result = result_kind(reduction.operation, kind)
    space.names[reduction.name] = (name, result)
    return ReductionBody(name, kind, result, axes, inside, lines, statements, text)


def element_loops(
    space: RowSpace, emitter: CppEmitter, operands: Sequence[View], cache: RowCache | None
) -> tuple[list[Axis], LoopSpace, CppEmitter]:
    """The loops over a row's elements for the stores that read these operands, and the emitter inside them."""
    bodies = [store.body for store in space.element_stores]
    cached = [view for body in bodies for view in (cache.views_in(body) if cache else [])]
    axes, inside, local = _loops(space, emitter, [*operands, *(store.view for store in space.element_stores), *cached])
    if cache:
        for body in bodies:
            cache.enter(local, inside, body)
    return axes, inside, local


def _loops(space: RowSpace, emitter: CppEmitter, operands: list[View]) -> tuple[list[Axis], LoopSpace, CppEmitter]:
    axes = joined(space.function, space.reduced, operands)
    inside = LoopSpace(space.function, [*space.kept, *axes])
    names = index_names([*space.kept, *axes], space.rank)
    return axes, inside, CppEmitter(space.function, inside.place, space.names, names, emitter.known)
