"""Reading where an index says: embeddings, gathers and selections, as loads whose place is computed."""

from __future__ import annotations

from bottega.compiler.expression import Expression, Gather, Load, apply
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.view import Shape, View

OPERATORS = frozenset(("embedding", "gather", "index_select", "take_along_dim", "index", "_unsafe_index"))


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
    if operator in ("index", "_unsafe_index"):
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
    """`x[index]`, or `x[:, first, second]`: index tensors along neighbouring dimensions, which broadcast with each other."""
    x, given = scope.operand("self"), scope.argument("indices")
    used = [(axis, scope.tensor(ref)) for axis, ref in enumerate(given) if ref is not None]
    if any(where.dtype == "bool" for _, where in used):
        raise scope.refuse("by a mask")
    dims = [axis for axis, _ in used]
    if dims != list(range(dims[0], dims[0] + len(dims))):
        raise scope.refuse("by index tensors along dimensions that are apart")
    shape, dtype = scope.spec()
    rank = max(len(where.shape) for _, where in used)
    sources = [*range(dims[0]), *[None] * rank, *range(dims[-1] + 1, len(x.shape))]
    strides = tuple(0 if axis is None else x.view.strides[axis] for axis in sources)
    row = View(x.view.buffer, shape, strides, x.view.offset, x.view.text)
    places = tuple(range(dims[0], dims[0] + rank))
    found = [_at(where, shape, places[rank - len(where.shape) :]) for _, where in used]
    if len(used) == 1:
        return scope.map(Gather(row, x.view.strides[dims[0]], x.shape[dims[0]], found[0], x.dtype), shape, dtype)
    flat: Expression | None = None
    for dim, index in zip(dims, found):
        inside = apply("where", apply("lt", index, 0), apply("add", index, x.shape[dim]), index)
        step = apply("mul", inside, x.view.strides[dim])
        flat = step if flat is None else apply("add", flat, step)
    assert flat is not None
    extent = 1 + sum((x.shape[dim] - 1) * x.view.strides[dim] for dim in dims)
    return scope.map(Gather(row, 1, extent, flat, x.dtype), shape, dtype)


def _at(where: LoweredTensor, shape: Shape, axes: tuple[int, ...]) -> Load:
    """An index tensor whose dimensions are some of the loops."""
    strides = [0] * len(shape)
    for axis, stride, size in zip(axes, where.view.strides, where.shape, strict=True):
        strides[axis] = stride if size != 1 else 0
    view = where.view
    return Load(View(view.buffer, shape, tuple(strides), view.offset, view.text), where.dtype)
