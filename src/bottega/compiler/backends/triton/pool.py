"""Pools: a flat block of outputs, the window unrolled, and the padding folded into the mask.

Where a window is wide, its last dimension lies across the block: neighbours in memory are read together, and a block has fewer outputs.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.direct_convolution import LETTERS, SIZES, UNROLLED
from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter, KernelWriter
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.backends.triton.spelling import kind_of
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Load, views
from bottega.compiler.kernel import WINDOW, Pool
from bottega.compiler.loops import Loop
from bottega.compiler.view import Shape, View, contiguous_strides

BLOCK = 512
WIDE = 8
"""From so many neighbours of a window on they are read together: two sectors of memory for each output that reads one by one."""
WIDE_BLOCK = 2048
"""Elements of a block of outputs by neighbours."""


class _Flat(IndexSpace):
    """Outputs in order of memory have the flat index itself as their address."""

    flat: str = ""

    def offset(self, view: View, skip: frozenset[int] = frozenset()) -> str:
        if view.strides == contiguous_strides(self.shape) and not view.offset:
            return self.flat
        return super().offset(view, skip)


def joined(sizes: list[str]) -> str:
    return f"({' * '.join(sizes)})" if len(sizes) > 1 else sizes[0]


def write_pool(file: FileWriter, kernel: Pool) -> None:
    if kind_of(kernel.dtype) != "float":
        raise Refusal(f"a pool of {kernel.dtype} is not written in Triton")
    writer = file.kernel_writer(kernel.origin)
    dims = len(kernel.window)
    kept = len(kernel.source) - dims
    bodies = [item.body for item in kernel.stores]
    inputs = views(kernel.element)
    outputs = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
    writer.reserve([view.buffer for view in [*inputs, *outputs]])
    flat, mask = writer.fresh("offsets"), writer.fresh("mask")
    inside, plane = writer.fresh("inside"), writer.fresh("plane")
    places = [writer.fresh(f"o{letter}") for letter in LETTERS[dims]]
    sources = [writer.fresh(f"i{letter}") for letter in LETTERS[dims]]
    taps = [writer.fresh(f"k{letter}") for letter in LETTERS[dims]]
    kept_loops = [Loop(kernel.source[axis], (axis,)) for axis in range(kept)] or [Loop(1, ())]
    indices, sizes = numbered_names(writer, len(kept_loops), plane, "planes")

    def groups(shape: Shape, names: list[str], prefix: str) -> list[AxisGroup]:
        own = [AxisGroup(plane, kept_loops, indices, sizes, "planes", constant=True)]
        for d in range(dims):
            size = prefix + SIZES[dims][d]
            own.append(AxisGroup(names[d], [Loop(shape[kept + d], (kept + d,))], [names[d]], [size], size, constant=True))
        return own

    above = IndexSpace(writer, kernel.source, inputs, groups(kernel.source, sources, ""))
    below = _Flat(writer, kernel.shape, outputs, groups(kernel.shape, places, "O"))
    below.flat = flat
    above.touch(inputs, [kernel.element])
    below.touch(outputs, bodies)
    above.needed |= below.needed
    wide = kernel.window[-1] >= WIDE
    lanes = 1 << (kernel.window[-1] - 1).bit_length()
    outputs_each = max(1, WIDE_BLOCK // lanes) if wide else BLOCK
    block = writer.constexpr("BLOCK", str(outputs_each))
    across = writer.constexpr("TAPS", str(lanes)) if wide else ""
    extent = f"({block}, {across})" if wide else f"({block},)"
    total = writer.parameter("size total", "n", below.text(tuple(range(len(kernel.shape)))), "size")
    extents = [below.size(1 + d, 0) for d in range(dims)]
    writer.indexes([*inputs, *outputs])
    line = writer.line
    line(f"{flat} = tl.program_id(0) * {block} + tl.arange(0, {block}){'[:, None]' if wide else ''}")
    line(f"{mask} = {flat} < {total}")
    line(f"{plane} = {flat} // {joined(extents)}")
    for d, name in enumerate(places):
        rest = extents[d + 1 :]
        line(f"{name} = {flat}{f' // {joined(rest)}' if rest else ''} % {extents[d]}")
    above.define(0)
    result = writer.fresh("best" if kernel.operation == "max" else "acc")
    neutral = '-float("inf")' if kernel.operation == "max" else "0.0"
    start = f"tl.full({extent}, {neutral}, tl.float32)" if kernel.operation == "max" else f"tl.zeros({extent}, tl.float32)"
    line(f"{result} = {start}")
    ends = [(kernel.shape[kept + d] - 1) * kernel.stride[d] + (kernel.window[d] - 1) * kernel.dilation[d] for d in range(dims)]
    beyond = [end - kernel.padding[d] >= kernel.source[kept + d] for d, end in enumerate(ends)]
    counted = kernel.operation == "average" and not kernel.count_padding and kernel.divisor is None
    counted &= any(kernel.padding) or any(beyond)
    count = writer.fresh("count") if counted else ""
    if counted:
        line(f"{count} = tl.zeros({extent}, tl.float32)")
    conditions = [mask]
    walked = taps
    if wide:
        walked = taps[:-1]
        line(f"{taps[-1]} = tl.arange(0, {across})[None, :]")
        conditions += [f"({taps[-1]} < {kernel.window[-1]})"] if lanes > kernel.window[-1] else []
    loop = "tl.static_range" if math.prod(kernel.window[: len(walked)]) <= UNROLLED else "range"
    depth = writer.depth
    for d, tap in enumerate(walked):
        line(f"for {tap} in {loop}({kernel.window[d]}):")
        writer.depth += 1
    for d in range(dims):
        stride, padding, dilation = kernel.stride[d], kernel.padding[d], kernel.dilation[d]
        step = taps[d] if dilation == 1 else f"{taps[d]} * {dilation}"
        place = f"{places[d]} * {stride}" if stride > 1 else places[d]
        line(f"{sources[d]} = {place}{f' - {padding}' if padding else ''} + {step}")
        if padding:
            conditions.append(f"({sources[d]} >= 0)")
        if beyond[d]:
            conditions.append(f"({sources[d]} < {above.size(1 + d, 0)})")
    if len(conditions) > 1:
        line(f"{inside} = {' & '.join(conditions)}")
    else:
        inside = mask
    plain = isinstance(kernel.element, Load)
    emitter = TritonEmitter(
        writer, reader(above, lambda along: inside if along else "", lambda node: neutral if plain else "0.0"), above.index_of
    )
    value = emitter.write([kernel.element])[0]
    if not plain:
        value = f"tl.where({inside}, {value}, {neutral})"
    if kernel.operation == "max":
        line(f"{result} = tl.maximum({result}, {value}, propagate_nan=tl.PropagateNan.ALL)")
    else:
        line(f"{result} += {value}")
        if counted:
            line(f"{count} += tl.where({inside}, 1.0, 0.0)")
    writer.depth = depth
    if wide:
        _gathered(writer, kernel.operation, result, count)
    if kernel.operation == "average":
        sides = [str(size) for size in kernel.window]
        for d, end in enumerate(ends):
            if end >= kernel.source[kept + d] + 2 * kernel.padding[d]:  # torch does not count what is past the padding
                most = f"{above.size(1 + d, 0)}{f' + {2 * kernel.padding[d]}' if kernel.padding[d] else ''}"
                sides[d] = f"tl.minimum({kernel.window[d]}, {most} - {places[d]} * {kernel.stride[d]})"
        whole = " * ".join(side for side in sides if side != "1") or "1"
        divisor = count or (str(kernel.divisor) if kernel.divisor else f"({whole})" if "*" in whole else whole)
        if divisor != "1":
            line(f"{result} = {result} / {divisor}")
    tail = TritonEmitter(writer, reader(below, lambda along: mask if along else "", lambda node: ""), below.index_of)
    tail.names[WINDOW] = result
    store(below, tail, list(kernel.stores), lambda along: mask)
    writer.finish(f"(triton.cdiv({writer.size_text(total)}, {outputs_each}),)")


def _gathered(writer: KernelWriter, operation: str, result: str, count: str) -> None:
    """The neighbours of each window as one."""
    if operation == "max":
        writer.file.helpers.add("nan_max")
        writer.line(f"{result} = tl.reduce({result}, 1, nan_max, keep_dims=True)")
        return
    for name in filter(None, (result, count)):
        writer.line(f"{name} = tl.sum({name}, axis=1, keep_dims=True)")
