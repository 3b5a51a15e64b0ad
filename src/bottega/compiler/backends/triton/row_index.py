"""The index space of a kernel over rows: which loops are rows and which run along one, the masks, and what masked lanes hold."""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.accumulate import Any, Moments, OnlineSoftmax, ReductionScope
from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.layout import RowLayout, kind_and_type
from bottega.compiler.backends.triton.neutral import choose_other, is_neutral
from bottega.compiler.backends.triton.reading import barriers, reader
from bottega.compiler.backends.triton.shape_index import Lookup, Whole, is_single, lookup, wanted_by, whole_behind, whole_of
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.backends.triton.spelling import kind_of, number
from bottega.compiler.backends.triton.width import INT32
from bottega.compiler.expression import Expression, Gather, Load, views, walk
from bottega.compiler.kernel import Reduction, RowProgram
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View, contiguous_strides

ROW, COLUMN = 0, 1


class RowIndex:
    """Row and column as index names, with the lines that define them."""

    def __init__(self, file: FileWriter, kernel: RowProgram, layout: RowLayout, suffix: str = "") -> None:
        self.file, self.kernel, self.layout = file, kernel, layout
        self.writer = writer = file.kernel_writer(kernel.origin, suffix)
        bodies = [r.body for r in kernel.reductions]
        stores = [*kernel.row_stores, *kernel.element_stores]
        bodies += [item.body for item in stores]
        self.operands = [view for body in bodies for view in views(body)] + [item.view for item in stores]
        writer.reserve([view.buffer for view in self.operands])
        self.shape = kernel.kept + kernel.reduced
        lookups = self._lookups(bodies)
        straight = [view for view in self.operands if view not in lookups]
        loops = merge(self.shape, straight, [len(kernel.kept), *barriers(bodies)])
        kept = [loop for loop in loops if loop.axes and loop.axes[0] < len(kernel.kept)] or [Loop(1, ())]
        reduced = [loop for loop in loops if loop.axes and loop.axes[0] >= len(kernel.kept)] or [Loop(1, ())]
        self.row, self.column = writer.fresh("row"), writer.fresh("column")
        self.mask = writer.fresh("mask")
        indices, sizes = numbered_names(writer, len(kept), self.row, "rows", "" if len(reduced) == 1 else "_ROW")
        inner, extents = numbered_names(writer, len(reduced), self.column, "columns")
        self.space = IndexSpace(
            writer,
            self.shape,
            self.operands,
            [AxisGroup(self.row, kept, indices, sizes, "rows"), AxisGroup(self.column, reduced, inner, extents, "columns")],
            lookups=lookups,
        )
        self.reduces = lambda node: COLUMN in self.space.depends(node.view)
        self.other = choose_other(list(kernel.reductions), self.reduces)
        self.emitter = TritonEmitter(writer, reader(self.space, self.masks, self.other_text), self.space.index_of)
        self.count = math.prod(kernel.reduced)
        self.emitter.kinds = {r.name: self._kind(r) for r in kernel.reductions}
        self.space.touch(self.operands, bodies)
        double = any(node.dtype == "float64" for b in bodies for node in walk(b) if isinstance(node, Load | Gather))
        self.dtype = "float64" if double else "float32"

    def _lookups(self, bodies: list[Expression]) -> dict[View, Lookup]:
        """Not for what lies as the rows do: one value a row, or one of a row's own."""
        kernel, buffers = self.kernel, self.file.plan.buffers
        count, rows = math.prod(self.shape), math.prod(kernel.kept)
        dense = [view for view in dict.fromkeys((*(s.view for s in kernel.element_stores), *self.operands))
                 if buffers[view.buffer].size == count and not view.offset]  # fmt: skip
        found: dict[View, Lookup] = {}
        for view, shapes in wanted_by(bodies, self.file.plan.shapes).items():
            kept, reduced = view.strides[: len(kernel.kept)], view.strides[len(kernel.kept) :]
            a_row = not any(reduced) and not view.offset and kept == contiguous_strides(kernel.kept)
            own = buffers[view.buffer]
            a_column = not any(kept) and own.shape == (math.prod(kernel.reduced),) and not self.layout.outer
            if view in dense or a_row or a_column or is_single(view):
                continue
            wholes: list[Whole | None] = []
            for shape in sorted(shapes, key=math.prod):
                if math.prod(shape) == rows and not any(reduced):
                    wholes.append(whole_of(shape, kernel.kept))
                elif math.prod(shape) == count:
                    wholes += [whole_behind(shape, main, buffers[main.buffer]) for main in dense]
            wholes += [whole_behind(buffers[main.buffer].shape, main, buffers[main.buffer]) for main in dense]
            hits = [lookup(view, own, whole) for whole in wholes if whole is not None]
            hit = next((hit for hit in hits if hit is not None), None)
            if hit is not None:
                found[view] = hit
        return found

    def _kind(self, reduction: Reduction) -> str:
        if reduction.operation in ("argmax", "argmin"):
            return "int"
        return "bool" if reduction.operation in ("any", "all") else kind_and_type(reduction)[0]

    # Masks

    def masks(self, along: frozenset[int]) -> str:
        if not self.layout.tile:
            return self.mask if COLUMN in along else ""
        if along == {ROW, COLUMN}:
            return self.mask
        if along == {ROW}:
            return f"{self.row} < {self.space.total(ROW)}"
        return f"{self.column} < {self.columns}" if along else ""

    def other_text(self, node: Load | Gather) -> str:
        if not self.reduces(node) or not self.kernel.reductions:
            return ""
        return number(self.other) if kind_of(node.dtype) == "float" else "0"

    @property
    def columns(self) -> str:
        return self.space.total(COLUMN)

    def masked(self, accumulator: Any, reduction: Reduction, text: str) -> str:
        """A reduction's value with masked lanes made neutral, where they are not so already."""
        if isinstance(accumulator, OnlineSoftmax):
            return text if is_neutral(reduction, self.other, self.reduces) else f'tl.where({self.mask}, {text}, -float("inf"))'
        if isinstance(accumulator, Moments):
            return text
        if reduction.operation in ("any", "all"):
            truth = text if self.emitter.kind(reduction.body) == "bool" else f"{text} != 0"
            return (
                f"tl.where({self.mask} & ({truth}), 1, 0)"
                if reduction.operation == "any"
                else f"tl.where({self.mask} & ~({truth}), 0, 1)"
            )
        if is_neutral(reduction, self.other, self.reduces):
            return text
        return f"tl.where({self.mask}, {text}, {accumulator.neutral})"

    # Index lines

    def begin(self) -> None:
        writer, layout = self.writer, self.layout
        writer.indexes(self.operands)
        if layout.tile:
            self.height = writer.constexpr("ROWS", "")
            self.width = writer.constexpr("COLUMNS", "")
            axis = "[None, :]" if layout.outer else "[:, None]"
            writer.line(f"{self.row} = tl.program_id(0) * {self.height} + tl.arange(0, {self.height}){axis}")
        else:
            self.width = writer.constexpr("BLOCK", "")
            writer.line(f"{self.row} = tl.program_id(0)")
        self.space.define(ROW)
        if not layout.looped:
            self.lanes("")
        shape = f"({self.width},)"
        if layout.tile:
            shape = f"({self.width}, {self.height})" if layout.outer else f"({self.height}, {self.width})"
        self.scope = ReductionScope(
            writer,
            shape,
            0 if layout.outer or not layout.tile else 1,
            layout.tile,
            self.columns,
            self.column,
            self.dtype,
            self.count >= INT32,
        )
        self.emitter.sizes = {self.count: self.columns} if self.count > 1 else {}

    def lanes(self, start: str) -> None:
        axis = ("[:, None]" if self.layout.outer else "[None, :]") if self.layout.tile else ""
        self.writer.line(f"{self.column} = {start}tl.arange(0, {self.width}){axis}")
        inside = f"{self.column} < {self.columns}"
        if self.layout.tile:
            inside = f"({self.row} < {self.space.total(ROW)}) & ({inside})"
        self.writer.line(f"{self.mask} = {inside}")
        self.space.define(COLUMN)

    def row_masks(self, along: frozenset[int]) -> str:
        return f"{self.row} < {self.space.total(ROW)}" if self.layout.tile else ""

    def element_masks(self, along: frozenset[int]) -> str:
        return self.mask
