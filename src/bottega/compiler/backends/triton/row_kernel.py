"""One kernel over rows: held in registers, or walked block by block with what does not change computed before the loop."""

from __future__ import annotations

import math
from functools import cached_property

from bottega.compiler.backends.triton.accumulate import (
    Accumulator,
    Any,
    Moments,
    OnlineSoftmax,
    levels,
    reduce_function,
)
from bottega.compiler.backends.triton.layout import TALLEST_TILE, accumulators, is_careful, kind_and_type, of_halves
from bottega.compiler.backends.triton.neutral import neutral_text
from bottega.compiler.backends.triton.reading import moves, store
from bottega.compiler.backends.triton.row_index import COLUMN, ROW, RowIndex
from bottega.compiler.expression import Apply, Cast, Constant, Expression, Gather, Load, Name, children, names, views
from bottega.compiler.kernel import StoreOp
from bottega.compiler.view import View

LOOPED_BLOCK, LOOPED_TILE, LOOPED_HALVES = 4096, 16, 64
"""Elements of a row in one step of a loop over it: of a row alone, and of rows in a tile, of halves more, since a step waits for memory."""
TWICE_BLOCK, TWICE_WARPS = 8192, 32
"""Of a row that is read again to be stored: with 2 such programs to a multiprocessor, rows up to about 45,000 fp32 are still in an H200's L2 then."""
NARROW_TILE, WIDE_TILE, MANY_TILES = 64, 256, 528
"""Rows side by side in a tile: more of them, read in longer lines, where there are enough tiles for the device."""
WARP_ROW, WARP_ROWS = 1024, 2048
"""Up to so many halves one warp holds a row, where there are rows enough: it waits for no other and has four loads under way; 1.28× on 768 (H200)."""
FEW_COLUMNS = 32
"""Of rows side by side in memory: below it a small tile of one warp is faster, 1.45× (1.04 to 2.10) on tasks that did not choose it (H200)."""


class RowKernel(RowIndex):
    """A program for each row, or for a tile of them."""

    def whole(self) -> None:
        self.begin()
        if self.layout.looped:
            for sweep, stored in self.sweeps:
                self.sweep(sweep, stored)
                self.settle(sweep)
            self.outputs("0")
        else:
            self.in_registers()
        self.launch()

    def in_registers(self) -> None:
        kernel, emitter = self.kernel, self.emitter
        roots = [r.body for r in kernel.reductions] + [s.body for s in (*kernel.row_stores, *kernel.element_stores)]
        emitter.survey(roots)
        written: dict[tuple[str, Expression], str] = {}
        for reduction in kernel.reductions:
            if (reduction.operation, reduction.body) in written:
                emitter.names[reduction.name] = written[reduction.operation, reduction.body]
                continue
            value = emitter.write([reduction.body], 60)[0]
            kind, dtype = kind_and_type(reduction)
            same = [each for each in kernel.reductions if (each.operation, each.body) == (reduction.operation, reduction.body)]
            careful = any(is_careful(each, kind, kernel) for each in same)
            probe = Accumulator(reduction, careful, kind, neutral_text(reduction, kind, dtype))
            lanes = self.masked(probe, reduction, value)
            text = probe.place(self.scope, lanes) or self.scope.over(reduce_function(reduction, careful), lanes)
            name = self.writer.fresh(reduction.name)
            self.writer.line(f"{name} = {text}{' > 0' if reduction.operation in ('any', 'all') else ''}")
            emitter.names[reduction.name] = written[reduction.operation, reduction.body] = name
        if kernel.row_stores:
            store(self.space, emitter, list(kernel.row_stores), self.row_masks)
        if kernel.element_stores:
            store(self.space, emitter, list(kernel.element_stores), self.element_masks)

    def hoist(self, roots: list[Expression]) -> None:
        """Computes before a loop what does not change in it."""

        seen: set[Expression] = set()

        def visit(node: Expression) -> None:
            if node in seen or node in self.emitter.known or isinstance(node, Constant | Name):
                return
            seen.add(node)
            if COLUMN not in moves(self.space, node):
                if isinstance(node, Apply | Load | Gather | Cast):
                    self.emitter.named(node)
                return
            for child in children(node):
                visit(child)

        for root in roots:
            visit(root)

    @cached_property
    def sweeps(self) -> list[tuple[list[Any], list[StoreOp]]]:
        """Loops over the row, each with what is stored on the way: a GELU whose squares are added up is not read and computed again."""
        left, made, found = list(self.kernel.element_stores), set[str](), []
        for sweep in levels(accumulators(self.file, self.kernel)):
            seen = {view for accumulator in sweep for root in accumulator.roots for view in views(root)}
            stored = [item for item in left if names(item.body) <= made and self._moving(item.body) <= seen]
            left = [item for item in left if item not in stored]
            made |= {reduction.name for accumulator in sweep for reduction in accumulator.reductions}
            found.append((sweep, stored))
        return found

    def _moving(self, body: Expression) -> set[View]:
        return {view for view in views(body) if COLUMN in self.space.depends(view)}

    @property
    def left(self) -> list[StoreOp]:
        """What takes a loop of its own, behind the others."""
        return [item for item in self.kernel.element_stores if not any(item in stored for _, stored in self.sweeps)]

    def sweep(self, sweep: list[Any], stored: list[StoreOp]) -> None:
        """One loop over the row."""
        start = self.writer.fresh("start")
        roots = [root for accumulator in sweep for root in accumulator.roots] + [item.body for item in stored]
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
            if stored:
                store(self.space, inner, stored, self.element_masks)

    def _word(self, text: str) -> str:
        if text.isidentifier():
            return text
        name = self.writer.numbered()
        self.writer.line(f"{name} = {text}")
        return name

    def centre(self, body: Expression) -> str:
        """The mean of the body over the first block of the row."""
        block = self._looped_tile() if self.layout.tile else self._block()
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
        if self.left:
            self.hoist([item.body for item in self.left])
            start = self.writer.fresh("start")
            step = f"SPLITS * {self.width}" if self.layout.splits else self.width
            with self.writer.block(f"for {start} in range({first}, {self.columns}, {step}):"):
                self.lanes(f"{start} + ")
                store(self.space, self.emitter.inner(), self.left, self.element_masks)

    # Launches

    def launch(self, grid_y: str = "") -> None:
        writer, file, layout = self.writer, self.file, self.layout
        by_name = {parameter.name: parameter for parameter in writer.parameters.values()}
        options = ""
        if not layout.tile:
            by_name[self.width].text = self._width(layout.looped)
            grid = f"({self.rows_text()},{f' {grid_y}' if grid_y else ''})"
            warps = file.plan.tuning.row_warps or self.warps()
            options = f"num_warps={warps}" if warps != 4 else ""
        elif layout.looped:
            side = WIDE_TILE if math.prod(self.kernel.kept) >= WIDE_TILE * MANY_TILES else NARROW_TILE
            tile = self._looped_tile()
            options = "num_warps=8" if tile == LOOPED_HALVES else ""
            by_name[self.width].text, by_name[self.height].text = str(tile), str(side)
            grid = f"(triton.cdiv({self.rows_text()}, {side}),{f' {grid_y}' if grid_y else ''})"
        else:
            width = file.variable("width")
            height = file.variable("height")
            file.forward.append(f"{width} = triton.next_power_of_2({self.columns_text()})")
            tall = layout.outer and self.count > 128  # rows side by side in memory: so many that they are read together
            few = layout.outer and self.count < FEW_COLUMNS
            most = TALLEST_TILE if tall else 512 if few else 4096 if layout.outer else 2048
            file.forward.append(f"{height} = max(1, {most} // {width})")
            options = "num_warps=8" if tall else "num_warps=1" if few else ""
            by_name[self.width].text, by_name[self.height].text = width, height
            grid = f"(triton.cdiv({self.rows_text()}, {height}),)"
        writer.finish(grid, options)

    def warps(self) -> int:
        """Of a program that holds one row or walks it."""
        block = self._block() if self.layout.looped else 1 << (self.count - 1).bit_length()
        if block <= WARP_ROW and math.prod(self.kernel.kept) >= WARP_ROWS and of_halves(self.kernel):
            return 1
        return TWICE_WARPS if self.layout.looped and self._twice() else 16 if block > 8192 else 8 if block > 2048 else 4

    def _looped_tile(self) -> int:
        return LOOPED_HALVES if of_halves(self.kernel) and not self.layout.splits else LOOPED_TILE

    def _twice(self) -> bool:
        """Whether one program reads its whole row again. Rows that it reads once go faster in smaller programs (1.05×, 128,256 bf16, H200)."""
        return not self.layout.splits and len(self.sweeps) + bool(self.left) > 1

    def _block(self) -> int:
        return TWICE_BLOCK if self._twice() else LOOPED_BLOCK

    def _width(self, looped: bool) -> str:
        return str(self._block()) if looped else f"triton.next_power_of_2({self.columns_text()})"

    def columns_text(self) -> str:
        return self.writer.size_text(self.columns)

    def rows_text(self) -> str:
        key = "size rows"
        if key in self.writer.parameters:
            return self.writer.size_text(self.writer.parameters[key].name)
        return self.space.total_text(ROW)
