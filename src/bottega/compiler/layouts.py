"""How tensors lie that kernels and torch hand each other: inputs in the task's layout, results of torch in the order that kernels read."""

from __future__ import annotations

import dataclasses

from bottega.compiler.bodies import made, read
from bottega.compiler.expression import Load
from bottega.compiler.kernel import FunctionCall, Kernel, Map
from bottega.compiler.view import Buffer, contiguous_strides


def in_layout(buffer: Buffer) -> str:
    """An input as the kernels address it, copied where a caller gives it in another layout than the task does."""
    name, strides = buffer.name, f"({', '.join(map(str, buffer.strides))},)"
    copied = f"torch.empty_strided({name}.shape, {strides}, dtype={name}.dtype, device={name}.device).copy_({name})"
    return f"{name} if {name}.stride() == {strides} else {copied}"


def in_order(kernel: Kernel) -> Kernel:
    if not isinstance(kernel, FunctionCall) or "conv" not in kernel.function or len(kernel.results) != 1:
        return kernel
    return dataclasses.replace(kernel, then=".contiguous()")


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
