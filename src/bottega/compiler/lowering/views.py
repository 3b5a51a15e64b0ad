"""Operators that only look at a tensor in another way: no statement, another view. Its text is kept for library calls."""

from __future__ import annotations

from typing import Any

from bottega.compiler.compose import permuted
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.view import Shape, View

OPERATORS = frozenset(
    (
        *(
            "view",
            "reshape",
            "flatten",
            "unflatten",
            "_unsafe_view",
            "view_as",
            "reshape_as",
            "transpose",
            "permute",
            "t",
            "numpy_T",
        ),
        *(
            "mT",
            "matrix_H",
            "adjoint",
            "swapaxes",
            "swapdims",
            "movedim",
            "squeeze",
            "unsqueeze",
            "expand",
            "expand_as",
            "select",
        ),
        *("slice", "narrow", "split", "split_with_sizes", "chunk", "unbind", "tensor_split", "broadcast_to", "unsafe_split"),
        *("unsafe_chunk", "ravel", "atleast_1d", "diagonal", "unfold"),
    )
)


def lower(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator, x = scope.node.operator, scope.operand("self")
    view, rank = x.view, len(x.shape)
    if any(spec is not None and spec.dtype != x.dtype for spec in scope.node.outputs):
        raise scope.refuse("as bits of another type")
    if not rank and scope.node.outputs[0] is not None and not scope.spec()[0]:
        scope.looked_at.update(scope.node.arguments)
        return x  # a single number, however it is turned

    def new(shape: Any, strides: Any, text: str, offset: int = 0, axes: Any = ()) -> LoweredTensor:
        return LoweredTensor(
            View(view.buffer, tuple(shape), tuple(strides), view.offset + offset, f"{view.text}{text}", tuple(axes)), x.dtype
        )

    match operator:
        case "view" | "reshape" | "flatten" | "unflatten" | "_unsafe_view" | "view_as" | "reshape_as" | "ravel" | "atleast_1d":
            made = scope.reshape(x, scope.spec()[0])
            scope.looked_at.update(scope.node.arguments)  # the result's shape says all
            if operator == "flatten":
                start, end = scope.argument("start_dim"), scope.argument("end_dim")
                text = f"{view.text}.flatten({start})" if end == -1 else f"{view.text}.flatten({start}, {end})"
                made = _retold(made, text) if made.view.buffer == view.buffer else made
            return made
        case "transpose" | "swapaxes" | "swapdims" | "t" | "numpy_T" | "mT" | "matrix_H" | "adjoint" | "permute" | "movedim":
            order = _order(scope, operator, rank)
            return _retold(LoweredTensor(permuted(view, order), x.dtype), f"{view.text}{_turn_text(order)}")
        case "squeeze":
            dims = _dims(scope.argument("dim"), rank)
            gone = [a for a in range(rank) if x.shape[a] == 1 and (dims is None or a in dims)]
            keep = [a for a in range(rank) if a not in gone]
            text = ".squeeze()" if dims is None else f".squeeze({', '.join(map(str, dims)) if len(dims) == 1 else tuple(dims)})"
            return new([x.shape[a] for a in keep], [view.strides[a] for a in keep], text, 0, [view.axis_text(a) for a in keep])
        case "unsqueeze":
            dim = scope.argument("dim") % (rank + 1)
            axes = [view.axis_text(a) for a in range(rank)]
            shape, strides = [*x.shape], [*view.strides]
            strides.insert(dim, 0 if dim == rank else strides[dim] * shape[dim])
            shape.insert(dim, 1)
            axes.insert(dim, "1")
            return new(shape, strides, f".unsqueeze({dim})", 0, axes)
        case "expand" | "expand_as" | "broadcast_to":
            return _expanded(x, scope.spec()[0])
        case "select":
            dim, index = scope.argument("dim") % rank, scope.argument("index")
            index %= x.shape[dim]
            keep = [a for a in range(rank) if a != dim]
            text = "[" + ":, " * dim + f"{index}]"
            axes = [view.axis_text(a) for a in keep]
            return new([x.shape[a] for a in keep], [view.strides[a] for a in keep], text, index * view.strides[dim], axes)
        case "slice" | "narrow":
            dim = scope.argument("dim") % rank
            start = scope.argument("start") or 0
            start = max(start + x.shape[dim] if start < 0 else start, 0)
            step = scope.argument("step") or 1
            length = scope.spec()[0][dim]
            return _piece(x, dim, start, length, step)
        case "split" | "split_with_sizes" | "chunk" | "unbind" | "tensor_split" | "unsafe_split" | "unsafe_chunk":
            return _pieces(scope, x, operator)
        case "diagonal":
            return _diagonal(scope, x)
        case "unfold":
            dim, size, step = (scope.argument(name) for name in ("dimension", "size", "step"))
            steps = [stride * step if a == dim % rank else stride for a, stride in enumerate(view.strides)]
            return new(scope.spec()[0], [*steps, view.strides[dim]], f".unfold({dim}, {size}, {step})")
    raise scope.refuse("is not understood")


def _expanded(x: LoweredTensor, shape: Shape) -> LoweredTensor:
    view, missing = x.view, len(shape) - len(x.shape)
    seen = view.broadcast(shape)
    text = f"{view.text}.expand({', '.join(map(str, shape))})"
    axes = tuple(
        view.axis_text(a - missing) if a >= missing and x.shape[a - missing] == size else str(size)
        for a, size in enumerate(shape)
    )
    return LoweredTensor(View(seen.buffer, shape, seen.strides, seen.offset, text, axes), x.dtype)


def _retold(tensor: LoweredTensor, text: str) -> LoweredTensor:
    view = tensor.view
    return LoweredTensor(View(view.buffer, view.shape, view.strides, view.offset, text, view.axes), tensor.dtype)


def _order(scope: LoweringScope, operator: str, rank: int) -> tuple[int, ...]:
    order = list(range(rank))
    if operator == "permute":
        return tuple(dim % rank for dim in scope.argument("dims"))
    if operator == "movedim":
        source, target = scope.argument("source"), scope.argument("destination")
        moved = [s % rank for s in (source if isinstance(source, tuple) else (source,))]
        wanted = [t % rank for t in (target if isinstance(target, tuple) else (target,))]
        order = [axis for axis in order if axis not in moved]
        for place, axis in sorted(zip(wanted, moved)):
            order.insert(place, axis)
        return tuple(order)
    if operator in ("numpy_T", "t"):
        return tuple(reversed(order))
    names = {"transpose": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "swapdims": ("dim0", "dim1")}.get(operator)
    first, second = (scope.argument(name) % rank for name in names) if names else (rank - 2, rank - 1)
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _turn_text(order: tuple[int, ...]) -> str:
    moved = [axis for axis, source in enumerate(order) if axis != source]
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(map(str, order))})" if moved else ""


def _dims(dim: Any, rank: int) -> list[int] | None:
    if dim is None:
        return None
    return [d % max(rank, 1) for d in (dim if isinstance(dim, tuple) else (dim,))]


def _piece(x: LoweredTensor, dim: int, start: int, length: int, step: int = 1) -> LoweredTensor:
    view = x.view
    if start == 0 and step == 1 and length == x.shape[dim]:
        return x
    shape = tuple(length if axis == dim else size for axis, size in enumerate(x.shape))
    strides = tuple(stride * step if axis == dim else stride for axis, stride in enumerate(view.strides))
    end = start + (length - 1) * step + 1
    inside = f"{start or ''}:{'' if end >= x.shape[dim] else end}" + (f":{step}" if step != 1 else "")
    text = f"{view.text}[" + ":, " * dim + inside + "]"
    axes = tuple(str(length) if axis == dim else view.axis_text(axis) for axis in range(len(shape)))
    return LoweredTensor(View(view.buffer, shape, strides, view.offset + start * view.strides[dim], text, axes), x.dtype)


def _pieces(scope: LoweringScope, x: LoweredTensor, operator: str) -> tuple[LoweredTensor | None, ...]:
    dim = scope.argument("dim") % len(x.shape)
    found: list[LoweredTensor | None] = []
    start = 0
    for spec in scope.node.outputs:
        assert spec is not None
        length = 1 if operator == "unbind" else spec.shape[dim]
        piece = _piece(x, dim, start, length)
        if operator == "unbind":
            keep = [a for a in range(len(x.shape)) if a != dim]
            view = piece.view
            text = f"{x.view.text}[" + ":, " * dim + f"{start}]"
            axes = tuple(view.axis_text(a) for a in keep)
            shape, strides = tuple(view.shape[a] for a in keep), tuple(view.strides[a] for a in keep)
            piece = LoweredTensor(View(view.buffer, shape, strides, view.offset, text, axes), x.dtype)
        found.append(piece)
        start += length
    return tuple(found)


def _diagonal(scope: LoweringScope, x: LoweredTensor) -> LoweredTensor:
    rank = len(x.shape)
    first, second, offset = scope.argument("dim1") % rank, scope.argument("dim2") % rank, scope.argument("offset")
    keep = [a for a in range(rank) if a not in (first, second)]
    view = x.view
    start = offset * view.strides[second] if offset >= 0 else -offset * view.strides[first]
    shape = (*(x.shape[a] for a in keep), scope.spec()[0][-1])
    strides = (*(view.strides[a] for a in keep), view.strides[first] + view.strides[second])
    text = f"{view.text}.diagonal({offset}, {first}, {second})"
    return LoweredTensor(View(view.buffer, shape, strides, view.offset + start, text), x.dtype)
