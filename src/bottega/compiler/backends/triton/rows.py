"""Rows: one program holds a row in registers, several short ones in a tile, or walks a long one block by block.

The row's index and the place in it are broadcast against each other where there is more than one row, so that the lines that compute
are the same in every layout.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.even_rows import EvenRows, falls_into_pieces
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.layout import layout_of
from bottega.compiler.backends.triton.map import write_map
from bottega.compiler.backends.triton.row_kernel import RowKernel
from bottega.compiler.backends.triton.row_pieces import SplitRows
from bottega.compiler.expression import Cast, Constant, Expression, Gather, Load, Name, replace, walk
from bottega.compiler.kernel import Map, RowProgram, StoreOp
from bottega.compiler.view import View


def write_rows(file: FileWriter, kernel: RowProgram) -> None:
    kernel = _extended(kernel)
    if math.prod(kernel.reduced) == 1:
        write_map(file, _single(kernel))
        return
    layout = layout_of(file, kernel)
    if layout.splits:
        SplitRows(file, kernel, layout, "_partial").partial()
        return
    kind = EvenRows if falls_into_pieces(file, kernel, layout) else RowKernel
    kind(file, kernel, layout).whole()


def _single(kernel: RowProgram) -> Map:
    """A reduction of one element is that element."""
    swap: dict[Expression, Expression] = {}
    for reduction in kernel.reductions:
        body: Expression = replace(reduction.body, swap)
        if reduction.operation in ("argmax", "argmin"):
            body = Constant(0)
        swap[Name(reduction.name)] = Cast("bool", body) if reduction.operation in ("any", "all") else body
    stores = tuple(StoreOp(s.view, replace(s.body, swap), s.dtype) for s in (*kernel.row_stores, *kernel.element_stores))
    return Map(kernel.kept + kernel.reduced, stores, kernel.origin)


def _extended(kernel: RowProgram) -> RowProgram:
    """With row stores looked at over all dimensions, repeating along the reduced ones."""
    shape, missing = kernel.kept + kernel.reduced, len(kernel.reduced)

    def wide(view: View) -> View:
        if len(view.strides) == len(shape):
            return view
        return View(view.buffer, shape, view.strides + (0,) * missing, view.offset, view.text)

    def body(expression: Expression) -> Expression:
        swap: dict[Expression, Expression] = {}
        for node in walk(expression):
            if isinstance(node, Load):
                swap[node] = Load(wide(node.view), node.dtype)
        made = replace(expression, swap)
        for node in walk(made):
            if isinstance(node, Gather):
                made = replace(made, {node: Gather(wide(node.view), node.axis_stride, node.size, node.index, node.dtype)})
        return made

    stores = tuple(StoreOp(wide(item.view), body(item.body), item.dtype) for item in kernel.row_stores)
    return RowProgram(kernel.kept, kernel.reduced, kernel.reductions, stores, kernel.element_stores, kernel.origin)
