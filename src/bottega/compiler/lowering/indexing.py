"""Reading where an index says: embeddings, gathers and selections, as loads whose place is computed."""

from __future__ import annotations

from bottega.compiler.expression import Gather, Load
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.view import Shape, View

OPERATORS = frozenset(("embedding", "gather", "index_select", "take_along_dim", "index"))


def lower(scope: LoweringScope) -> LoweredTensor:
    operator = scope.node.operator
    shape, dtype = scope.spec()
    if operator == "embedding":
        table, where = scope.operand("weight"), scope.operand("indices")
        row = View(
            table.view.buffer, shape, (*[0] * len(where.shape), table.view.strides[1]), table.view.offset, table.view.text
        )
        index = _at(where, shape, tuple(range(len(where.shape))))
        return scope.map(Gather(row, table.view.strides[0], table.shape[0], index, table.dtype), shape, dtype)
    if operator == "index":
        return _indexed(scope)
    x = scope.operand("self")
    dim = scope.argument("dim")
    dim = (0 if dim is None else dim) % len(x.shape)
    if operator == "index_select":
        where = scope.operand("index")
        index = _at(where, shape, (dim,))
    else:
        where = scope.operand("index" if operator == "gather" else "indices")
        index = Load(where.view.broadcast(shape), where.dtype)
    strides = tuple(0 if axis == dim else stride for axis, stride in enumerate(x.view.strides))
    row = View(x.view.buffer, shape, strides, x.view.offset, x.view.text)
    return scope.map(Gather(row, x.view.strides[dim], x.shape[dim], index, x.dtype), shape, dtype)


def _indexed(scope: LoweringScope) -> LoweredTensor:
    """`x[index]` with one index tensor."""
    x, given = scope.operand("self"), scope.argument("indices")
    used = [(axis, ref) for axis, ref in enumerate(given) if ref is not None]
    if len(used) != 1:
        raise scope.refuse("by several index tensors")
    dim, ref = used[0]
    where = scope.tensor(ref)
    if where.dtype == "bool":
        raise scope.refuse("by a mask")
    shape, dtype = scope.spec()
    rank = len(where.shape)
    sources = [*range(dim), *[None] * rank, *range(dim + 1, len(x.shape))]
    strides = tuple(0 if axis is None else x.view.strides[axis] for axis in sources)
    index = _at(where, shape, tuple(range(dim, dim + rank)))
    row = View(x.view.buffer, shape, strides, x.view.offset, x.view.text)
    return scope.map(Gather(row, x.view.strides[dim], x.shape[dim], index, x.dtype), shape, dtype)


def _at(where: LoweredTensor, shape: Shape, axes: tuple[int, ...]) -> Load:
    """An index tensor whose dimensions are some of the loops."""
    strides = [0] * len(shape)
    for axis, stride in zip(axes, where.view.strides):
        strides[axis] = stride
    view = where.view
    return Load(View(view.buffer, shape, tuple(strides), view.offset, view.text), where.dtype)
