"""How tensors lie that kernels and torch hand each other: inputs and outputs in the task's layout, results of torch in the order that kernels
read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeGuard

from torch.utils._pytree import tree_leaves, tree_map

from bottega.compiler.bodies import made, read
from bottega.compiler.expression import Load
from bottega.compiler.fusion import turned
from bottega.compiler.kernel import FunctionCall, Kernel, Map, RowProgram
from bottega.compiler.lowering.scope import squeezed_shape
from bottega.compiler.view import Buffer, Shape, View, contiguous_strides

DENSE = ("conv", "linear", "matmul", "torch.mm", "bmm", "addmm", "embedding", "torch.cat", "torch.stack")
"""Functions whose results are new tensors, dense and in order, which kernels after them rely on; others are asked for it."""


def is_dense(call: FunctionCall) -> bool:
    return any(word in call.function for word in DENSE)


def in_layout(buffer: Buffer) -> str:
    """An input as the kernels address it, copied where a caller gives it in another layout than the task does."""
    name, strides = buffer.name, f"({', '.join(map(str, buffer.strides))},)"
    copied = f"torch.empty_strided({name}.shape, {strides}, dtype={name}.dtype, device={name}.device).copy_({name})"
    return f"{name} if {name}.stride() == {strides} else {copied}"


def in_order(kernel: Kernel, otherwise: bool) -> Kernel:
    """A convolution's result lies as its operands do: asked for in order where one of them is a turned view, or where inputs or weights lie
    `otherwise`."""
    if not isinstance(kernel, FunctionCall) or "conv" not in kernel.function or len(kernel.results) != 1:
        return kernel
    turned = any(isinstance(value, View) and not value.contiguous for value in kernel.arguments)
    return dataclasses.replace(kernel, then=".contiguous()") if otherwise or turned else kernel


def as_returned(
    kernels: list[Kernel], buffers: dict[str, Buffer], returned: Any, layouts: Mapping[str, Shape]
) -> tuple[list[Kernel], Any]:
    """What a kernel computes and only the caller reads, in the memory order in which the module itself returns it."""
    changed, texts = list(kernels), {}
    for place, kernel in enumerate(kernels):
        name = _mapped(kernel, buffers) or _row_filled(kernel, buffers)
        read_again = any(name in read(other) for other in kernels)
        if name not in layouts or read_again or len(layouts[name]) != len(buffers[name].shape):
            continue
        order = tuple(sorted(range(len(layouts[name])), key=lambda axis: (-layouts[name][axis], axis)))
        lying = _lying if isinstance(kernel, Map) else _rows_lying
        changed[place], texts[name] = lying(kernel, buffers, order)
    return changed, _seen(returned, texts)


def heads_last(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """Queries, keys and values that kernels compute for torch's attention, in memory with the heads behind the positions, as the projections before
    them gave them: torch's result lies as the query does, and what follows reads it in that order."""
    changed, texts = list(kernels), {}
    for place, kernel in enumerate(kernels):
        name = _mapped(kernel, buffers) or _row_filled(kernel, buffers)
        readers = [other for other in kernels if name in read(other)]
        if not name or name in returned or not readers or len(buffers[name].shape) != 4:
            continue
        if all(_is_attention(other) and _whole_operand(other, name) for other in readers):
            lying = _lying if isinstance(kernel, Map) else _rows_lying
            changed[place], texts[name] = lying(kernel, buffers, (0, 2, 1, 3))
    return [_called_with(kernel, texts) if isinstance(kernel, FunctionCall) else kernel for kernel in changed]


def _called_with(call: FunctionCall, texts: Mapping[str, str]) -> FunctionCall:
    """The call with other text for whole looks at some buffers, and without the text in which it was settled before."""
    if not any(view.buffer in texts for view in _views(call.arguments)):
        return call
    return dataclasses.replace(call, arguments=_seen(call.arguments, texts), text="", looks=())


def _is_attention(kernel: Kernel) -> TypeGuard[FunctionCall]:
    return isinstance(kernel, FunctionCall) and kernel.function.endswith("attention") and not kernel.library_call


def _whole_operand(call: FunctionCall, name: str) -> bool:
    """Whether a call reads a buffer as its query, key or value, and nowhere else."""
    seen = [value for value in _views((call.arguments, call.keywords)) if value.buffer == name]
    return seen == [value for value in call.arguments[:3] if _is_view(value) and value.buffer == value.text == name]


def _mapped(kernel: Kernel, buffers: dict[str, Buffer]) -> str:
    """The buffer that a map fills, if it fills one, element by element in order."""
    if not isinstance(kernel, Map) or len(kernel.stores) != 1:
        return ""
    view, shape = kernel.stores[0].view, buffers[kernel.stores[0].view.buffer].shape
    return view.buffer if view.contiguous and kernel.shape in (shape, squeezed_shape(shape)) else ""


def _row_filled(kernel: Kernel, buffers: dict[str, Buffer]) -> str:
    """The one buffer that a row program fills, each of its loops a dimension of it."""
    if not isinstance(kernel, RowProgram) or kernel.row_stores or len(kernel.element_stores) != 1:
        return ""
    view = kernel.element_stores[0].view
    return view.buffer if _axes(view, buffers[view.buffer].shape) is not None and not view.offset else ""


def _axes(view: View, shape: Shape) -> list[int] | None:
    """For each loop the dimension of a contiguous buffer of this shape that it runs along; -1 for a loop of one step."""
    full = {step: axis for axis, step in enumerate(contiguous_strides(shape)) if shape[axis] != 1}
    axes = [full.get(stride, -1) if size != 1 else -1 for size, stride in zip(view.shape, view.strides)]
    found = {axis: size for axis, size in zip(axes, view.shape) if axis >= 0}
    return axes if found == {axis: shape[axis] for axis in full.values()} else None


def _lying(kernel: Kernel, buffers: dict[str, Buffer], order: tuple[int, ...]) -> tuple[Kernel, str]:
    """A map that fills its buffer with the dimensions in another order in memory, and the text that gives them in theirs."""
    assert isinstance(kernel, Map)
    store = kernel.stores[0]
    name = store.view.buffer
    before, shape = buffers[name].shape, _turn(buffers, name, order)
    if kernel.shape != before:  # dimensions of size one are no loops
        loops, shape = [axis for axis, size in enumerate(before) if size != 1], squeezed_shape(shape)
        inner = tuple(loops.index(axis) for axis in order if axis in loops)
    else:
        inner = order
    lying = dataclasses.replace(
        store, view=View(name, shape, contiguous_strides(shape), 0, name), body=turned(store.body, inner)
    )
    return dataclasses.replace(kernel, shape=shape, stores=(lying,)), _back(name, order)


def _rows_lying(kernel: Kernel, buffers: dict[str, Buffer], order: tuple[int, ...]) -> tuple[Kernel, str]:
    """The same for a row program, which keeps its loops and stores elsewhere."""
    assert isinstance(kernel, RowProgram)
    store = kernel.element_stores[0]
    name, buffer = store.view.buffer, buffers[store.view.buffer]
    axes = _axes(store.view, buffer.shape)
    assert axes is not None
    _turn(buffers, name, order)
    steps = contiguous_strides(buffers[name].shape)
    strides = tuple(steps[order.index(axis)] if axis >= 0 else 0 for axis in axes)
    lying = dataclasses.replace(store, view=dataclasses.replace(store.view, strides=strides))
    return dataclasses.replace(kernel, element_stores=(lying,)), _back(name, order)


def _turn(buffers: dict[str, Buffer], name: str, order: tuple[int, ...]) -> Shape:
    buffer = buffers[name]
    shape, axes = tuple(buffer.shape[axis] for axis in order), tuple(buffer.axes[axis] for axis in order if buffer.axes)
    buffers[name] = dataclasses.replace(buffer, shape=shape, axes=axes)
    return shape


def _back(name: str, order: tuple[int, ...]) -> str:
    return f"{name}.permute({', '.join(str(order.index(axis)) for axis in range(len(order)))})"


def _seen(value: Any, texts: Mapping[str, str]) -> Any:
    """With other text for whole looks at some buffers."""

    def seen(leaf: Any) -> Any:
        whole = _is_view(leaf) and leaf.text == leaf.buffer and leaf.buffer in texts
        return dataclasses.replace(leaf, text=texts[leaf.buffer]) if whole else leaf

    return tree_map(seen, value, is_leaf=_is_view)


def _views(value: Any) -> list[View]:
    return [leaf for leaf in tree_leaves(value, is_leaf=_is_view) if _is_view(leaf)]


def _is_view(value: Any) -> TypeGuard[View]:
    return isinstance(value, View)


def with_heads_last(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """Attention that torch computes and a copy of it with the heads last, as one call: torch's result lies that way already."""
    for place, call in enumerate(kernels):
        if not _is_attention(call):
            continue
        users = [later for later in range(place + 1, len(kernels)) if call.results[0] in read(kernels[later])]
        if len(users) != 1 or call.results[0] in returned:
            continue
        order = _copied_order(kernels[users[0]], buffers[call.results[0]], buffers)
        if order is not None:
            copied = made(kernels[users[0]])[0]
            turned = dataclasses.replace(call, results=(copied,), then=f".permute({', '.join(map(str, order))})")
            rest = [kernel for number, kernel in enumerate(kernels) if number not in (place, users[0])]
            return with_heads_last([*rest[:place], turned, *rest[place:]], buffers, returned)
    return kernels


def _copied_order(kernel: Kernel, source: Buffer, buffers: dict[str, Buffer]) -> tuple[int, ...] | None:
    """The order in which a kernel that does nothing else copies the dimensions of a buffer."""
    if not isinstance(kernel, Map) or len(kernel.stores) != 1 or not isinstance(body := kernel.stores[0].body, Load):
        return None
    target, full = buffers[kernel.stores[0].view.buffer], contiguous_strides(source.shape)
    if body.view.buffer != source.name or body.view.offset or len(target.shape) != len(source.shape):
        return None
    strides = iter(body.view.strides)
    wanted = [next(strides, None) if size != 1 else None for size in target.shape]
    order: list[int] = []
    for size, stride in zip(target.shape, wanted):
        axes = (a for a, n in enumerate(source.shape) if a not in order and n == size and stride in (None, full[a]))
        if (axis := next(axes, None)) is None:
            return None
        order.append(axis)
    return tuple(order) if kernel.stores[0].view.contiguous else None
