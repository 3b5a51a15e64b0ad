"""Convolutions as products whose left operand is gathered: rows are output pixels, columns are output channels, depth is the window.

Depth is laid out channel by channel, as the weights lie, or, as a technique, tap by tap, so that a whole block of channels shares its
place in the image. A convolution with one channel for each group has no depth to multiply and is a plain window.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.direct_convolution import DirectConvolution
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.matmul import write_product
from bottega.compiler.backends.triton.phased_convolution import PhasedConvolution
from bottega.compiler.backends.triton.spelling import kind_of
from bottega.compiler.backends.triton.tiled_convolution import TiledConvolution
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Expression, Index, Load, replace, walk
from bottega.compiler.kernel import Convolution, Product, StoreOp
from bottega.compiler.view import View, contiguous_strides


def write_convolution(file: FileWriter, kernel: Convolution) -> None:
    if kind_of(kernel.dtype) != "float" or kernel.dtype == "float64":
        raise Refusal(f"a convolution of {kernel.dtype} is not written in Triton")
    if not kernel.source.contiguous or not kernel.weight.contiguous or kernel.source.offset or kernel.weight.offset:
        raise Refusal("a convolution of operands that do not lie dense")
    product = as_product(kernel)
    if product is not None:
        write_product(file, product)
    else:
        writer_of(file, kernel).write()


def as_product(kernel: Convolution) -> Product | None:
    """A window of one pixel is a matrix product for each image."""
    window = kernel.weight.shape[2:]
    plain = set(window) | set(kernel.stride) == {1} and not any(kernel.padding) and not any(kernel.output_padding)
    if not plain or kernel.groups != 1:
        return None
    batch, channels, *space = kernel.source.shape
    pixels, outputs = math.prod(space), kernel.shape[1]

    def flat(view: View) -> View | None:
        strides = view.strides[2:]
        if strides == contiguous_strides(tuple(space)):
            step = 1
        elif not any(stride for stride, size in zip(strides, space) if size > 1):
            step = 0
        else:
            return None
        return View(view.buffer, (batch, outputs, pixels), (view.strides[0], view.strides[1], step), view.offset)

    stores: list[StoreOp] = []
    for item in kernel.stores:
        swap: dict[Expression, Expression] = {}
        for node in walk(item.body):
            if isinstance(node, Load):
                seen = flat(node.view)
                if seen is None:
                    return None
                swap[node] = Load(seen, node.dtype)
            elif isinstance(node, Index):
                return None
        target = flat(item.view)
        if target is None:
            return None
        stores.append(StoreOp(target, replace(item.body, swap), item.dtype))
    strides = (0, 1, outputs) if kernel.transposed else (0, channels, 1)
    left = View(kernel.weight.buffer, (batch, outputs, channels), strides)
    right = View(kernel.source.buffer, (batch, channels, pixels), (channels * pixels, pixels, 1))
    return Product((batch,), outputs, pixels, channels, left, right, kernel.dtype, tuple(stores), kernel.origin)


def writer_of(file: FileWriter, kernel: Convolution) -> DirectConvolution | TiledConvolution:
    if kernel.source.shape[1] == kernel.groups and not kernel.transposed:
        return DirectConvolution(file, kernel)
    strided = kernel.transposed and max(kernel.stride) > 1 and set(kernel.dilation) == {1} and kernel.groups == 1
    return PhasedConvolution(file, kernel) if strided and file.on("phases") else TiledConvolution(file, kernel)
