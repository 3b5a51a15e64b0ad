"""How tensors lie that kernels and torch hand each other: inputs and outputs in the task's layout, results of torch in the order that kernels
read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch.utils._pytree import tree_map

from bottega.compiler.bodies import made, read
from bottega.compiler.expression import Load
from bottega.compiler.fusion import turned
from bottega.compiler.kernel import FunctionCall, Kernel, Map
from bottega.compiler.view import Buffer, Shape, View, contiguous_strides


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
    """What a map computes and only the caller reads, in the memory order in which the module itself returns it."""
    changed, texts = list(kernels), {}
    for place, kernel in enumerate(kernels):
        if not isinstance(kernel, Map) or len(kernel.stores) != 1 or kernel.stores[0].view.buffer not in layouts:
            continue
        name, view = kernel.stores[0].view.buffer, kernel.stores[0].view
        buffer = buffers[name]
        read_again = any(name in read(other) for other in kernels)
        if read_again or not view.contiguous or kernel.shape != buffer.shape or len(layouts[name]) != len(buffer.shape):
            continue
        order = tuple(sorted(range(len(buffer.shape)), key=lambda axis: (-layouts[name][axis], axis)))
        shape = tuple(buffer.shape[axis] for axis in order)
        buffers[name] = dataclasses.replace(buffer, shape=shape, axes=tuple(buffer.axes[axis] for axis in order if buffer.axes))
        store = kernel.stores[0]
        body = turned(store.body, order)
        lying = dataclasses.replace(store, view=View(name, shape, contiguous_strides(shape), 0, name), body=body)
        changed[place] = dataclasses.replace(kernel, shape=shape, stores=(lying,))
        texts[name] = f"{name}.permute({', '.join(str(order.index(axis)) for axis in range(len(order)))})"

    def seen(value: Any) -> Any:
        whole = isinstance(value, View) and value.text == value.buffer and value.buffer in texts
        return dataclasses.replace(value, text=texts[value.buffer]) if whole else value

    return changed, tree_map(seen, returned, is_leaf=lambda value: isinstance(value, View))


def with_heads_last(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """Attention that torch computes and a copy of it with the heads last, as one call: torch's result lies that way already."""
    for place, call in enumerate(kernels):
        if not isinstance(call, FunctionCall) or not call.function.endswith("attention") or call.library_call:
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
