"""Convolutions of one to three dimensions. Plain: every output for itself. Tiled: some channels by a few vectors of outputs in
registers, over a padded copy of the input. Depthwise: a padded plane for each thread. Transposed: a gather, phase by phase."""

from __future__ import annotations

import math
from dataclasses import replace

from bottega.compiler.backends.cpp.conv_loops import Field, plain, plain_transposed
from bottega.compiler.backends.cpp.conv_shifted import shifted, tile_height
from bottega.compiler.backends.cpp.conv_tiles import FEWEST_CHANNELS, phase_tiles, phases, plane_by_plane
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.matmul import PACKED, write_product
from bottega.compiler.backends.cpp.space import loads
from bottega.compiler.expression import Expression, Gather, Index, Load, walk
from bottega.compiler.expression import replace as swapped
from bottega.compiler.kernel import Convolution, Product, StoreOp
from bottega.compiler.view import View

TILED, PLANE, PHASES = "conv_register_tile", "depthwise_plane", "transposed_phases"


def write_convolution(function: FunctionWriter, kernel: Convolution) -> list[str]:
    if PACKED in function.passes and _pointwise(kernel):
        return write_product(function, _as_product(kernel))
    field = Field(function, kernel)
    single = field.kind == "float"
    if kernel.transposed:
        if PHASES in function.passes and single:
            tiled = kernel.groups == 1 and field.channel.length >= FEWEST_CHANNELS and field.out_channel.length > 1
            return phase_tiles(field) if tiled else phases(field)
        return plain_transposed(field)
    if PLANE in function.passes and field.depthwise and single and kernel.shape[-1] >= 8:
        return plane_by_plane(field)
    height = tile_height(kernel.shape[1], kernel.groups)
    if TILED in function.passes and single and math.prod(kernel.shape[2:]) >= 8 and field.per_group >= 2 and height:
        return shifted(field, height)
    return plain(field)


def _pointwise(kernel: Convolution) -> bool:
    ones = all(size == 1 for size in (*kernel.weight.shape[2:], *kernel.stride)) and not any(kernel.padding)
    used = any(isinstance(node, Index) for store in kernel.stores for node in walk(store.body))
    views = [store.view for store in kernel.stores] + loads([store.body for store in kernel.stores])
    flat = all(_flat(view.strides[2:], view.shape[2:]) for view in [kernel.source, *views])
    return ones and kernel.groups == 1 and not kernel.transposed and flat and not used and kernel.dtype != "float64"


def _flat(strides: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    real = [(stride, size) for stride, size in zip(strides, sizes) if size > 1]
    return all(real[at][0] == real[at + 1][0] * real[at + 1][1] for at in range(len(real) - 1))


def _as_product(kernel: Convolution) -> Product:
    """Weight times image matrix, a product for each image."""
    batch, channels = kernel.shape[:2]
    pixels = math.prod(kernel.shape[2:])

    def flat(view: View) -> View:
        steps = [stride for stride, size in zip(view.strides[2:], view.shape[2:]) if size > 1]
        return View(
            view.buffer, (batch, channels, pixels), (*view.strides[:2], steps[-1] if steps else 0), view.offset, view.text
        )

    def reflated(store: StoreOp) -> StoreOp:
        swap: dict[Expression, Expression] = {
            node: replace(node, view=flat(node.view)) for node in walk(store.body) if isinstance(node, Load | Gather)
        }
        return replace(store, view=flat(store.view), body=swapped(store.body, swap))

    source, weight = kernel.source, kernel.weight
    depth = source.shape[1]
    left = View(weight.buffer, (batch, channels, depth), (0, weight.strides[0], weight.strides[1]), weight.offset, weight.text)
    right = View(source.buffer, (batch, depth, pixels), flat(source).strides, source.offset, source.text)
    return Product(
        (batch,), channels, pixels, depth, left, right, kernel.dtype, tuple(reflated(s) for s in kernel.stores), kernel.origin
    )
