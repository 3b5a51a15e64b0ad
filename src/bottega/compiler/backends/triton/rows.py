"""Rows: one program holds a row in registers, several short ones in a tile, or walks a long one block by block.

The row's index and the place in it are broadcast against each other where there is more than one row, so that the lines that compute
are the same in every layout.
"""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.accumulate import (
    Accumulator,
    Any,
    Moments,
    OnlineSoftmax,
    ReductionScope,
    levels,
    only_below_exponentials,
    reduce_function,
)
from bottega.compiler.backends.triton.emit import TritonEmitter, kind_of, number
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.layout import RowLayout, accumulators, kind_and_type, layout_of
from bottega.compiler.backends.triton.lookup import Lookup, Whole, is_single, lookup, wanted_by, whole_behind, whole_of
from bottega.compiler.backends.triton.map import write_map
from bottega.compiler.backends.triton.neutral import choose_other, is_neutral, neutral_text
from bottega.compiler.backends.triton.reading import barriers, moves, reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.expression import (
    Apply,
    Cast,
    Constant,
    Expression,
    Gather,
    Load,
    Name,
    children,
    replace,
    views,
    walk,
)
from bottega.compiler.kernel import Map, Reduction, RowProgram, StoreOp
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View, contiguous_strides

ROW, COLUMN = 0, 1
LOOPED_BLOCK, LOOPED_TILE = 4096, 16
"""Elements of a row in one step of a loop over it: of a row alone, and of rows in a tile."""
NARROW_TILE, WIDE_TILE, MANY_TILES = 64, 256, 528
"""Rows side by side in a tile: more of them, read in longer lines, where there are enough tiles for the device."""


def write_rows(file: FileWriter, kernel: RowProgram) -> None:
    kernel = _extended(kernel)
    if math.prod(kernel.reduced) == 1:
        write_map(file, _single(kernel))
        return
    layout = layout_of(file, kernel)
    if layout.splits:
        _Writer(file, kernel, layout, "_partial").partial()
        return
    _Writer(file, kernel, layout).whole()


class _Writer:
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
            writer, shape, 0 if layout.outer or not layout.tile else 1, layout.tile, self.columns, self.column, self.dtype
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

    # Whole kernels

    def whole(self) -> None:
        self.begin()
        if self.layout.looped:
            for sweep in levels(accumulators(self.file, self.kernel)):
                self.sweep(sweep)
                self.settle(sweep)
            self.outputs("0")
        else:
            self.in_registers()
        self.launch()

    def in_registers(self) -> None:
        kernel, emitter = self.kernel, self.emitter
        roots = [r.body for r in kernel.reductions] + [s.body for s in (*kernel.row_stores, *kernel.element_stores)]
        emitter.survey(roots)
        bodies = [r.body for r in kernel.reductions]
        written: dict[tuple[str, Expression], str] = {}
        for reduction in kernel.reductions:
            if (reduction.operation, reduction.body) in written:
                emitter.names[reduction.name] = written[reduction.operation, reduction.body]
                continue
            value = emitter.write([reduction.body], 60)[0]
            kind, dtype = kind_and_type(reduction)
            careful = (
                kind == "float" and reduction.operation in ("max", "min") and not only_below_exponentials(reduction, bodies)
            )
            probe = Accumulator(reduction, careful, kind, neutral_text(reduction, kind, dtype))
            text = self.scope.over(reduce_function(reduction, careful), self.masked(probe, reduction, value))
            name = self.writer.fresh(reduction.name)
            self.writer.line(f"{name} = {text}{' > 0' if reduction.operation in ('any', 'all') else ''}")
            emitter.names[reduction.name] = written[reduction.operation, reduction.body] = name
        if kernel.row_stores:
            store(self.space, emitter, list(kernel.row_stores), self.row_masks)
        if kernel.element_stores:
            store(self.space, emitter, list(kernel.element_stores), self.element_masks)

    def row_masks(self, along: frozenset[int]) -> str:
        return f"{self.row} < {self.space.total(ROW)}" if self.layout.tile else ""

    def element_masks(self, along: frozenset[int]) -> str:
        return self.mask

    def hoist(self, roots: list[Expression]) -> None:
        """Computes before a loop what does not change in it."""

        def visit(node: Expression) -> None:
            if node in self.emitter.known or isinstance(node, Constant | Name):
                return
            if COLUMN not in moves(self.space, node):
                if isinstance(node, Apply | Load | Gather | Cast):
                    self.emitter.named(node)
                return
            for child in children(node):
                visit(child)

        for root in roots:
            visit(root)

    def sweep(self, sweep: list[Any]) -> None:
        """One loop over the row."""
        start = self.writer.fresh("start")
        roots = [root for accumulator in sweep for root in accumulator.roots]
        self.hoist(roots)
        for accumulator in sweep:
            if isinstance(accumulator, Moments):
                accumulator.shift = self.centre(accumulator.sum.body)
            accumulator.begin(self.scope)
        head = f"range(0, {self.columns}, {self.width})"
        if self.layout.splits:
            head = f"range(tl.program_id(1) * {self.width}, {self.columns}, SPLITS * {self.width})"
        with self.writer.block(f"for {start} in {head}:"):
            self.lanes(f"{start} + ")
            inner = self.emitter.inner()
            inner.survey(roots)
            for accumulator in sweep:
                text = inner.write([accumulator.roots[0]])[0]
                text = self.masked(accumulator, accumulator.reductions[0], text)
                if isinstance(accumulator, OnlineSoftmax | Moments) or accumulator.reduction.operation in ("argmax", "argmin"):
                    text = self._word(text)
                accumulator.step(self.scope, text, self.mask)

    def _word(self, text: str) -> str:
        if text.isidentifier():
            return text
        name = self.writer.numbered()
        self.writer.line(f"{name} = {text}")
        return name

    def centre(self, body: Expression) -> str:
        """The mean of the body over the first block of the row."""
        block = LOOPED_TILE if self.layout.tile else LOOPED_BLOCK
        self.lanes("")
        text = self.emitter.inner().write([body])[0]
        text = text if self.count >= block else f"tl.where({self.mask}, {text}, 0.0)"
        name = self.writer.fresh("shift")
        self.writer.line(f"{name} = {self.scope.over('sum', text)} / {self.width if self.count >= block else self.columns}")
        return name

    def settle(self, sweep: list[Any]) -> None:
        for accumulator in sweep:
            accumulator.end(self.scope)
        for accumulator in sweep:
            accumulator.derive(self.scope, self.emitter)

    def outputs(self, first: str) -> None:
        kernel = self.kernel
        if kernel.row_stores:
            store(self.space, self.emitter, list(kernel.row_stores), self.row_masks)
        if kernel.element_stores:
            roots = [item.body for item in kernel.element_stores]
            self.hoist(roots)
            start = self.writer.fresh("start")
            step = f"SPLITS * {self.width}" if self.layout.splits else self.width
            with self.writer.block(f"for {start} in range({first}, {self.columns}, {step}):"):
                self.lanes(f"{start} + ")
                store(self.space, self.emitter.inner(), list(kernel.element_stores), self.element_masks)

    # Launches

    def launch(self, grid_y: str = "") -> None:
        writer, file, layout = self.writer, self.file, self.layout
        by_name = {parameter.name: parameter for parameter in writer.parameters.values()}
        options = ""
        if not layout.tile:
            by_name[self.width].text = self._width(layout.looped)
            grid = f"({self.rows_text()},{f' {grid_y}' if grid_y else ''})"
            block = LOOPED_BLOCK if layout.looped else 1 << (self.count - 1).bit_length()
            warps = file.plan.tuning.row_warps or (16 if block > 8192 else 8 if block > 2048 else 4)
            options = f"num_warps={warps}" if warps != 4 else ""
        elif layout.looped:
            side = WIDE_TILE if math.prod(self.kernel.kept) >= WIDE_TILE * MANY_TILES else NARROW_TILE
            by_name[self.width].text, by_name[self.height].text = str(LOOPED_TILE), str(side)
            grid = f"(triton.cdiv({self.rows_text()}, {side}),{f' {grid_y}' if grid_y else ''})"
        else:
            width = file.variable("width")
            height = file.variable("height")
            file.forward.append(f"{width} = triton.next_power_of_2({self.columns_text()})")
            tall = layout.outer and self.count > 128  # rows side by side in memory: so many that they are read together
            most = 8192 if tall else 4096 if layout.outer else 2048
            file.forward.append(f"{height} = max(1, {most} // {width})")
            options = "num_warps=8" if tall else ""
            by_name[self.width].text, by_name[self.height].text = width, height
            grid = f"(triton.cdiv({self.rows_text()}, {height}),)"
        writer.finish(grid, options)

    def _width(self, looped: bool) -> str:
        return str(LOOPED_BLOCK) if looped else f"triton.next_power_of_2({self.columns_text()})"

    def columns_text(self) -> str:
        return self.writer.size_text(self.columns)

    def rows_text(self) -> str:
        key = "size rows"
        if key in self.writer.parameters:
            return self.writer.size_text(self.writer.parameters[key].name)
        return self.space.total_text(ROW)

    # RowProgram in pieces

    def partial(self) -> None:
        """Two kernels: states of each piece of each row, then the pieces together and what is stored."""
        file, layout = self.file, self.layout
        (sweep,) = levels(accumulators(file, self.kernel))
        self.begin()
        self.writer.constexpr("SPLITS", str(layout.splits))
        self.sweep(sweep)
        for accumulator in sweep:
            accumulator.end(self.scope)
        states = [state for accumulator in sweep for state in accumulator.states]
        rows = self.space.total(ROW)
        at = f"tl.program_id(1) * {rows} + {self.row}"
        like = next((name for name in file.known if file.plan.buffers[name].kind == "input"), file.known[0])
        buffers: list[str] = []
        texts: list[str] = []
        for accumulator in sweep:
            for state in accumulator.states:
                integer = isinstance(accumulator, Accumulator) and (
                    accumulator.kind == "int"
                    or (accumulator.reduction.operation.startswith("arg") and state != accumulator.states[0])
                )
                dtype = "int64" if integer else self.dtype
                buffer = file.variable(f"{state}_parts")
                buffers.append(buffer)
                pointer = self.writer.parameter(f"pointer {buffer}", f"{buffer}_ptr", buffer, "result")
                mask = self.row_masks(frozenset())
                self.writer.line(f"tl.store({pointer} + {at}, {state}{f', mask={mask}' if mask else ''})")
                texts.append(f"{buffer} = torch.empty(({layout.splits}, {{rows}}), device={like}.device, dtype=torch.{dtype})")
        count = self.rows_text()
        file.forward += [text.format(rows=count) for text in texts]
        self.launch(str(layout.splits))
        second = _Writer(file, self.kernel, layout, "_final")
        second.together(sweep, states, buffers)

    def together(self, sweep: list[Any], states: list[str], buffers: list[str]) -> None:
        writer, layout = self.writer, self.layout
        self.begin()
        splits = writer.constexpr("SPLITS", str(layout.splits))
        part, rows = writer.fresh("part"), self.space.total(ROW)
        writer.line(f"{part} = tl.arange(0, {splits}){'[:, None]' if layout.tile else ''}")
        mask = self.row_masks(frozenset())
        for state, buffer in zip(states, buffers):
            pointer = writer.parameter(f"pointer {buffer}", f"{buffer}_ptr", buffer, "pointer")
            name = writer.fresh(state)
            writer.line(
                f"{name} = tl.load({pointer} + {part} * {rows} + {self.row}{f', mask={mask}, other=0.0' if mask else ''})"
            )
        for accumulator in sweep:
            if isinstance(accumulator, Moments):
                accumulator.shift = self.centre(accumulator.sum.body)
        self.settle(sweep)
        self.outputs(f"tl.program_id(1) * {self.width}")
        self.launch(str(layout.splits) if self.kernel.element_stores else "")


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
