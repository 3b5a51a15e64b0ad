"""Reading where an index says: embeddings, gathers and selections, as loads whose place is computed. So are rolls, flips, repeats and nearest
neighbours."""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from bottega.compiler.expression import Expression, Gather, Index, Load, Name, apply
from bottega.compiler.lowering.calls import steps_by_sizes
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.view import Shape, View

NEAREST = frozenset(f"upsample_nearest{rank}d" for rank in (1, 2, 3))
REPEATS = frozenset(("flip", "repeat", "repeat_interleave"))
BAGS = frozenset(("_embedding_bag", "_embedding_bag_forward_only"))
OPERATORS = NEAREST | REPEATS | BAGS | {"embedding", "gather", "index_select", "index", "_unsafe_index", "roll", "one_hot"}


def lower(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator = scope.node.operator
    if operator in BAGS:
        return _bags(scope), None, None, None
    shape, dtype = scope.spec()
    if operator in ("gather", "index_select", "roll", "flip", "repeat_interleave") and not scope.operand("self").shape:
        raise scope.refuse("of a single number")
    if operator == "embedding":
        table, where = scope.operand("weight"), scope.operand("indices")
        row = View(
            table.view.buffer, shape, (*[0] * len(where.shape), table.view.strides[1]), table.view.offset, table.view.text
        )
        index = _at(where, shape, tuple(range(len(where.shape))))
        return scope.map(Gather(row, table.view.strides[0], table.shape[0], index, table.dtype), shape, dtype)
    if operator in ("index", "_unsafe_index"):
        return _indexed(scope)
    if operator == "roll":
        return _rolled(scope)
    if operator in NEAREST:
        return _nearest(scope)
    if operator in REPEATS:
        return _repeated(scope)
    if operator == "one_hot":
        label = _at(scope.operand("self"), shape, tuple(range(len(shape) - 1)))
        return scope.map(apply("where", apply("eq", label, Index(len(shape) - 1)), 1, 0), shape, dtype)
    x = scope.operand("self")
    dim = scope.argument("dim")
    dim = (0 if dim is None else dim) % len(x.shape)
    if operator == "index_select":
        where = scope.operand("index")
        index = _at(where, shape, (dim,))
    else:
        where = scope.operand("index")
        index = Load(where.view.broadcast(shape), where.dtype)
    strides = tuple(0 if axis == dim else stride for axis, stride in enumerate(x.view.strides))
    row = View(x.view.buffer, shape, strides, x.view.offset, x.view.text)
    return scope.map(Gather(row, x.view.strides[dim], x.shape[dim], index, x.dtype), shape, dtype)


def _bags(scope: LoweringScope) -> LoweredTensor:
    """Sums or means over rows of a table, where all bags have the same size: their places then lie as rows of a matrix."""
    table, where = scope.operand("weight"), scope.operand("indices")
    (bags, width), dtype = scope.spec()
    size = where.shape[0] // max(bags, 1)
    asked = (node.arguments for node in scope.graph.nodes if node.operator == "getitem")
    if any(each["self"].name == scope.node.name and each["index"] for each in asked):
        raise scope.refuse("more than the sums are asked for")
    starts = [
        node.arguments for node in scope.graph.nodes if (node.name, node.operator) == (scope.argument("offsets").name, "arange")
    ]
    even = size > 0 and [(one.get("start") or 0, one.get("step") or 1) for one in starts] == [(0, size)]
    plain = scope.argument("per_sample_weights") is None and not scope.argument("include_last_offset")
    padded = scope.argument("padding_idx") is not None and scope.argument("padding_idx") >= 0
    if not even or not plain or padded or scope.argument("mode") not in (None, 0, 1):
        raise scope.refuse("bags of several sizes, weighted or padded ones, or their maxima")
    space, (step,) = (bags, size, width), where.view.strides
    row = View(table.view.buffer, space, (0, 0, table.view.strides[1]), table.view.offset, table.view.text)
    index = Load(
        View(where.view.buffer, space, (size * step, step, 0), where.view.offset, where.view.text),
        where.dtype,
    )
    each = Gather(row, table.view.strides[0], table.shape[0], index, table.dtype)
    result = apply("div", Name("total"), size) if scope.argument("mode") == 1 else Name("total")
    return scope.rows(space, (1,), [("total", "sum", each)], result, None, dtype)


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
    inside = [
        apply("where", apply("lt", index, 0), apply("add", index, x.shape[dim]), index) for dim, index in zip(dims, found)
    ]
    return scope.map(_flat(x, row, dict(zip(dims, inside))), shape, dtype)


def _rolled(scope: LoweringScope) -> LoweredTensor:
    x, shifts, dims = scope.operand("self"), scope.argument("shifts"), scope.argument("dims")
    if not dims:
        raise scope.refuse("of a tensor as if it were flat")
    found = {dim % len(x.shape): apply("remainder", apply("add", Index(dim % len(x.shape)), -shift % x.shape[dim]), x.shape[dim])
             for dim, shift in zip(dims, shifts) if shift % x.shape[dim]}  # fmt: skip
    return _moved(scope, x, found) if found else x


def _repeated(scope: LoweringScope) -> LoweredTensor:
    """Flips, and repeats of the whole or of each element, a number of times that is known."""
    x, (shape, _) = scope.operand("self"), scope.spec()
    if scope.node.operator == "flip":
        dims = {dim % len(x.shape) for dim in scope.argument("dims")}
        return _moved(scope, x, {dim: apply("sub", shape[dim] - 1, Index(dim)) for dim in sorted(dims) if shape[dim] > 1})
    if scope.node.operator == "repeat":
        missing = len(shape) - len(x.shape)
        whole = View(x.view.buffer, (1,) * missing + x.shape, (0,) * missing + x.view.strides, x.view.offset, x.view.text)
        sizes = enumerate(zip(whole.shape, shape))
        found = {dim: apply("remainder", Index(dim), inside) for dim, (inside, outside) in sizes if 1 < inside < outside}
        return _moved(scope, LoweredTensor(whole, x.dtype), found)
    times, dim = scope.argument("repeats"), scope.argument("dim")
    if not isinstance(times, int) or dim is None:
        raise scope.refuse("as often as a tensor says")
    dim %= len(x.shape)
    return _moved(scope, x, {dim: apply("floor_divide", Index(dim), times)} if x.shape[dim] > 1 else {})


def _nearest(scope: LoweringScope) -> LoweredTensor:
    """By whole factors, where torch's arithmetic in 32 bits finds the same neighbour."""
    x, (shape, _) = scope.operand("self"), scope.spec()
    found: dict[int, Expression] = {}
    for dim, (inside, outside) in enumerate(zip(x.shape, shape)):
        factor = outside // inside
        step = numpy.float32(1) / numpy.float32(factor)
        places = numpy.arange(outside)
        if (
            outside % inside
            or not steps_by_sizes(scope, x.shape)
            or ((places.astype(numpy.float32) * step).astype(int) != places // factor).any()
        ):
            raise scope.refuse("by a factor that is not whole")
        if factor > 1:
            found[dim] = apply("floor_divide", Index(dim), factor)
    return _moved(scope, x, found)


def _moved(scope: LoweringScope, x: LoweredTensor, found: Mapping[int, Expression]) -> LoweredTensor:
    """Every element from elsewhere along some dimensions; along those of one element it is that one."""
    shape, dtype = scope.spec()
    strides = tuple(0 if axis in found or x.shape[axis] == 1 else stride for axis, stride in enumerate(x.view.strides))
    row = View(x.view.buffer, shape, strides, x.view.offset, x.view.text)
    return scope.map(_flat(x, row, found) if found else Load(row, x.dtype), shape, dtype)


def _flat(x: LoweredTensor, row: View, found: Mapping[int, Expression]) -> Gather:
    """Places along several dimensions of a tensor as one."""
    (first, *others), strides = found, x.view.strides
    if not others:
        return Gather(row, strides[first], x.shape[first], found[first], x.dtype)
    flat = apply("mul", found[first], strides[first])
    for dim in others:
        flat = apply("add", flat, apply("mul", found[dim], strides[dim]))
    return Gather(row, 1, 1 + sum((x.shape[dim] - 1) * strides[dim] for dim in found), flat, x.dtype)


def _at(where: LoweredTensor, shape: Shape, axes: tuple[int, ...]) -> Load:
    """An index tensor whose dimensions are some of the loops."""
    strides = [0] * len(shape)
    for axis, stride, size in zip(axes, where.view.strides, where.shape, strict=True):
        strides[axis] = stride if size != 1 else 0
    view = where.view
    return Load(View(view.buffer, shape, tuple(strides), view.offset, view.text), where.dtype)
