"""Matrix products: tiles of the result, a loop over the depth, and what becomes of each element before it is stored."""

from __future__ import annotations

import math
from dataclasses import replace

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import TILE, FileWriter
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.rows import write_rows
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names, times
from bottega.compiler.backends.triton.spelling import EIGHT_BITS, kind_of
from bottega.compiler.backends.triton.width import WIDEST_GRID
from bottega.compiler.build_step import Refusal
from bottega.compiler.choices import Tile
from bottega.compiler.expression import Expression, Load, Name, apply, views, walk
from bottega.compiler.expression import replace as swapped
from bottega.compiler.kernel import ACCUMULATOR, Product, Reduction, RowProgram, StoreOp
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import Buffer, View, contiguous_strides

BATCH, ROW, COLUMN, DEPTH = range(4)
FEW = 4
"""A product with so few rows or columns is a bundle of reductions."""
PROGRAMS = 132
MANY_STRIPS = 8 * PROGRAMS
SHARE = 1024
"""Depth below which a piece is not worth a program of its own."""
SHALLOW = 64
"""Depth up to which the stores take longer than the products."""
STRIP = 16
"""Column tiles that one program of such a product walks, where there are many: the rows' tile is read and split into TF32 once for all of them.
On an H200 49152 x 48 x 49152 took 6.3 ms so, and 7.8 with a program for each tile."""


def write_product(file: FileWriter, kernel: Product) -> None:
    if kind_of(kernel.dtype) != "float" or kernel.dtype == "float64":
        raise Refusal(f"a product of {kernel.dtype} is not written in Triton")
    least = min(kernel.rows, kernel.columns, kernel.depth)
    if least == 1 or (file.on("product_as_rows") and min(kernel.rows, kernel.columns) <= FEW):
        write_rows(file, as_rows(kernel))
        return
    kernel = packed(file, kernel)
    splits = splits_of(file, kernel)
    if splits > 1:
        for piece in split(file, kernel, splits):
            if isinstance(piece, Product):
                _Writer(file, piece).write()
            else:
                write_rows(file, piece)
        return
    _Writer(file, kernel).write()


def precision(file: FileWriter, dtype: str) -> str:
    """The argument of tl.dot that keeps fp32 what it is. Hopper adds up products of eight bits in fewer bits than fp32 has, unless told."""
    if dtype in EIGHT_BITS:
        return ", max_num_imprecise_acc=32"
    if dtype != "float32":
        return ""
    chosen = "tf32x3" if file.on("tf32x3") else "ieee"
    return f', input_precision="{chosen}"'


def walks_columns(file: FileWriter, kernel: Product) -> bool:
    """Whether a program keeps its rows and walks a strip of column tiles."""
    if (
        not (file.on("tuned_tiles") and file.on("tf32x3") and file.on("depth_major"))
        or kernel.dtype != "float32"
        or kernel.batch
    ):
        return False
    if file.plan.tuning.tile is not None or not 16 <= (kernel.depth & -kernel.depth) <= kernel.depth <= SHALLOW:
        return False
    strips = kernel.columns // (64 * STRIP)
    if (
        kernel.columns > kernel.rows or strips >= WIDEST_GRID
    ):  # what is turned is the columns' operand, and a grid's second axis is short
        return False
    return (kernel.rows // 64) * strips >= MANY_STRIPS


def turned(file: FileWriter, kernel: Product) -> bool:
    """Whether the tile is computed transposed: three TF32 products want their second operand contiguous along the depth."""
    if walks_columns(file, kernel):
        return False
    wanted = file.on("depth_major") and file.on("tf32x3") and kernel.dtype == "float32"
    return wanted and kernel.right.strides[-2] != 1 and kernel.left.strides[-1] == 1


def packed(file: FileWriter, kernel: Product) -> Product:
    """With the right operand copied so that it lies along the depth, where neither operand does."""
    view = kernel.right
    if (
        not (file.on("depth_major") and file.on("tf32x3"))
        or kernel.dtype != "float32"
        or view.strides[-2] == 1
        or (kernel.left.strides[-1] == 1 and not walks_columns(file, kernel))
    ):
        return kernel
    buffer = file.plan.buffers[view.buffer]
    if not view.text or buffer.size != math.prod(view.shape):
        return kernel
    name = file.variable("turned")
    shape = (*kernel.batch, kernel.columns, kernel.depth)
    texts = (*tuple(view.axes[:-2]), view.axes[-1], view.axes[-2]) if view.axes else ()
    file.plan.buffers[name] = Buffer(name, shape, kernel.dtype, "result", texts)
    file.forward.append(f"{name} = {view.text}.transpose(-1, -2).contiguous()")
    file.known.append(name)
    *batch, column, depth = contiguous_strides(shape)
    right = View(name, view.shape, (*batch, depth, column), 0, "", view.axes)
    return replace(kernel, right=right)


def tile_of(file: FileWriter, kernel: Product) -> Tile:
    if file.plan.tuning.tile is not None:
        return file.plan.tuning.tile.within_memory(4 if kernel.dtype == "float32" else 2)
    if not file.on("tuned_tiles"):
        return Tile(64, 64, 32)
    batch = math.prod(kernel.batch)

    def programs(rows: int, columns: int) -> int:
        return math.ceil(kernel.rows / rows) * math.ceil(kernel.columns / columns) * batch

    if walks_columns(file, kernel):
        return Tile(64, 64, kernel.depth & -kernel.depth, 4, 2)
    if kernel.dtype == "float32":
        if kernel.depth <= SHALLOW:  # little to do for each element of the result: many small tiles hide the stores
            return Tile(64, 64, 32, 4, 3)
        if kernel.columns <= 64:
            return Tile(128, 64 if kernel.columns > 32 else 32, 32, 4, 3)
        if programs(128, 128) >= PROGRAMS:
            return Tile(128, 128, 64, 8, 3)
        return Tile(64, 64, 64, 4, 3) if programs(64, 64) >= PROGRAMS // 2 else Tile(64, 32, 64, 4, 3)
    if programs(128, 256) >= PROGRAMS:
        return Tile(128, 256, 64, 8, 3)
    return Tile(128, 128, 64, 8, 4) if programs(128, 128) >= PROGRAMS // 2 else Tile(64, 64, 64, 4, 4)


def as_rows(kernel: Product) -> RowProgram:
    """Each element of the result as a sum over the depth."""
    kept = (*kernel.batch, kernel.rows, kernel.columns)
    shape = (*kept, kernel.depth)
    left, right = spread(kernel)
    body = apply("mul", Load(View(left.buffer, shape, left.strides, left.offset), kernel.dtype),
                 Load(View(right.buffer, shape, right.strides, right.offset), kernel.dtype))  # fmt: skip
    stores = tuple(
        StoreOp(item.view, swapped(item.body, {Name(ACCUMULATOR): Name("total")}), item.dtype) for item in kernel.stores
    )
    return RowProgram(kept, (kernel.depth,), (Reduction("total", "sum", body),), stores, (), kernel.origin)


def spread(kernel: Product) -> tuple[View, View]:
    """Both operands over batch + (rows, columns, depth)."""
    shape = (*kernel.batch, kernel.rows, kernel.columns, kernel.depth)
    *batch, row, depth = kernel.left.strides
    left = View(kernel.left.buffer, shape, (*batch, row, 0, depth), kernel.left.offset)
    *batch, depth, column = kernel.right.strides
    return left, View(kernel.right.buffer, shape, (*batch, 0, column, depth), kernel.right.offset)


def splits_of(file: FileWriter, kernel: Product) -> int:
    """How many pieces of depth keep the device busy, where the result's tiles are too few."""
    if not file.on("split_k") or kernel.batch:
        return 1
    asked = file.plan.tuning.splits
    if asked and kernel.depth % asked == 0:
        return asked
    tiles = math.ceil(kernel.rows / 64) * math.ceil(kernel.columns / 64)
    best = 1
    for pieces in (2, 4, 8, 16, 32):
        if kernel.depth % pieces == 0 and kernel.depth // pieces >= SHARE and tiles * pieces <= 2 * PROGRAMS:
            best = pieces
    return best if tiles < PROGRAMS // 2 else 1


def split(file: FileWriter, kernel: Product, pieces: int) -> list[Product | RowProgram]:
    """The product of each piece of depth into a workspace, then their sum with the epilogue."""
    share = kernel.depth // pieces
    name = file.variable("partial")
    shape = (pieces, kernel.rows, kernel.columns)
    texts = [axis or str(size) for axis, size in zip(texts_of(kernel), (kernel.rows, kernel.columns, kernel.depth))]
    file.plan.buffers[name] = Buffer(name, shape, "float32", "result", (str(pieces), texts[0], texts[1]))
    depth_text = f"{texts[2]} // {pieces}" if not texts[2].isdigit() else str(share)
    row, inner = kernel.left.strides
    left = View(
        kernel.left.buffer, (pieces, kernel.rows, share), (share * inner, row, inner), kernel.left.offset, "",
        (str(pieces), texts[0], depth_text),
    )  # fmt: skip
    inner, column = kernel.right.strides
    right = View(
        kernel.right.buffer, (pieces, share, kernel.columns), (share * inner, inner, column), kernel.right.offset, "",
        (str(pieces), depth_text, texts[1]),
    )  # fmt: skip
    work = View(name, shape, contiguous_strides(shape))
    file.allocate(name)
    product = replace(
        kernel, batch=(pieces,), depth=share, left=left, right=right, stores=(StoreOp(work, Name(ACCUMULATOR), "float32"),)
    )
    kept = (kernel.rows, kernel.columns)
    seen = View(name, (*kept, pieces), (kernel.columns, 1, kernel.rows * kernel.columns))
    stores = tuple(
        StoreOp(item.view, swapped(item.body, {Name(ACCUMULATOR): Name("total")}), item.dtype) for item in kernel.stores
    )
    total = RowProgram(kept, (pieces,), (Reduction("total", "sum", Load(seen, "float32")),), stores, (), ("add_partials",))
    return [product, total]


def texts_of(kernel: Product) -> tuple[str, str, str]:
    """Rows, columns and depth as Python, where the plan says them."""
    rows = kernel.left.axes[-2] if kernel.left.axes else ""
    columns = kernel.right.axes[-1] if kernel.right.axes else ""
    depth = kernel.left.axes[-1] if kernel.left.axes else kernel.right.axes[-2] if kernel.right.axes else ""
    return rows, columns, depth


class _Writer:
    def __init__(self, file: FileWriter, kernel: Product) -> None:
        self.file, self.kernel = file, kernel
        self.writer = writer = file.kernel_writer(kernel.origin)
        self.shape = (*kernel.batch, kernel.rows, kernel.columns, kernel.depth)
        base = len(kernel.batch)
        self.left, self.right = spread(kernel)
        self.stores = [StoreOp(self.wide(s.view), self.widened(s.body), s.dtype) for s in kernel.stores]
        bodies = [item.body for item in self.stores]
        operands = [self.left, self.right] + [v for b in bodies for v in views(b)] + [s.view for s in self.stores]
        writer.reserve([view.buffer for view in operands])
        loops = merge(self.shape[:base], [View(v.buffer, v.shape[:base], v.strides[:base]) for v in operands]) if base else []
        self.row, self.column = writer.fresh("row"), writer.fresh("column")
        self.batch = writer.fresh("batch") if base else ""
        indices, sizes = numbered_names(writer, max(len(loops), 1), self.batch, "batches")
        names = ("M", "N", "K")
        groups = [
            AxisGroup(self.batch, loops or [Loop(1, ())], indices, sizes, "batches"),
            AxisGroup(self.row, [Loop(kernel.rows, (base,))], [self.row], [names[0]], names[0]),
            AxisGroup(self.column, [Loop(kernel.columns, (base + 1,))], [self.column], [names[1]], names[1]),
            AxisGroup("depth", [Loop(kernel.depth, (base + 2,))], ["depth"], [names[2]], names[2]),
        ]
        texts = {base + place: text for place, text in enumerate(texts_of(kernel)) if text and not text.isdigit()}
        self.space = IndexSpace(writer, self.shape, operands, groups, texts=texts)
        for group in (ROW, COLUMN, DEPTH):
            self.space.size(group, 0)
        self.space.touch(operands, bodies)
        self.operands = operands
        self.tile = tile_of(file, kernel)
        self.base = base
        self.turned, self.walks = turned(file, kernel), walks_columns(file, kernel)
        self.even_depth = self.file.on("even_tiles") and kernel.depth % self.tile.depth == 0
        if math.prod(kernel.batch) > WIDEST_GRID:
            raise Refusal("more matrices than a grid has programs along its later axes")
        wide = self.tile.columns * (STRIP if self.walks else 1)
        self.even = self.even_depth and kernel.rows % self.tile.rows == 0 and kernel.columns % wide == 0

    def wide(self, view: View) -> View:
        return View(view.buffer, self.shape, (*view.strides, 0), view.offset, view.text)

    def widened(self, body: Expression) -> Expression:
        return swapped(body, {n: Load(self.wide(n.view), n.dtype) for n in walk(body) if isinstance(n, Load)})

    def masks(self, along: frozenset[int]) -> str:
        if self.even:
            return ""
        parts = []
        if ROW in along:
            parts.append(f"{self.row} < {self.space.size(ROW, 0)}")
        if COLUMN in along:
            parts.append(f"{self.column} < {self.space.size(COLUMN, 0)}")
        return " & ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)

    def write(self) -> None:
        writer, space = self.writer, self.space
        rows, columns, depth = (space.size(group, 0) for group in (ROW, COLUMN, DEPTH))
        tile = [
            writer.constexpr(name, str(value))
            for name, value in zip(TILE, (self.tile.rows, self.tile.columns, self.tile.depth))
        ]
        writer.indexes(self.operands)
        self.places(tile, rows, columns)
        space.define(BATCH)
        if self.walks:
            self.walk(tile)
            self.launch(rows, columns)
            return
        acc, start, k = (
            writer.fresh("acc"),
            writer.fresh("start"),
            writer.fresh("k"),
        )
        a, b = writer.fresh("a"), writer.fresh("b")
        writer.line(f"{acc} = tl.zeros(({', '.join((tile[1], tile[0]) if self.turned else (tile[0], tile[1]))}), tl.float32)")
        with writer.block(f"for {start} in range(0, {depth}, {tile[2]}):"):
            writer.line(f"{k} = {start} + tl.arange(0, {tile[2]})")
            down, across = ("[:, None]", "[None, :]") if self.turned else ("[None, :]", "[:, None]")
            self.operand(a, self.left, f"{k}{down}", depth)
            self.operand(b, self.right, f"{k}{across}", depth)
            both = f"{b}, {a}" if self.turned else f"{a}, {b}"
            writer.line(f"{acc} = tl.dot({both}, {acc}{precision(self.file, self.kernel.dtype)})")
        self.store(acc)
        self.launch(rows, columns)

    def walk(self, tile: list[str]) -> None:
        """The rows' tile in pieces of the depth, each a power of two, and then column tile after column tile."""
        writer, strip = self.writer, self.writer.constexpr("STRIP", str(STRIP))
        pieces = range(self.kernel.depth // self.tile.depth)
        ks = [writer.fresh(f"k{piece}") for piece in pieces]
        for piece, k in enumerate(ks):
            writer.line(f"{k} = {f'{piece} * {tile[2]} + ' if piece else ''}tl.arange(0, {tile[2]})")
        lefts = [writer.fresh(f"a{piece}") for piece in pieces]
        for name, k in zip(lefts, ks):
            self.operand(name, self.left, f"{k}[None, :]", "")
        first, step, acc, right = (writer.fresh(word) for word in ("first", "step", "acc", "b"))
        writer.line(f"{first} = tl.program_id(1) * {strip}")
        with writer.block(f"for {step} in range({strip}):"):
            writer.line(f"{self.column} = (({first} + {step}) * {tile[1]} + tl.arange(0, {tile[1]}))[None, :]")
            writer.line(f"{acc} = tl.zeros(({tile[0]}, {tile[1]}), tl.float32)")
            for name, k in zip(lefts, ks):
                self.operand(right, self.right, f"{k}[:, None]", "")
                writer.line(f"{acc} = tl.dot({name}, {right}, {acc}{precision(self.file, self.kernel.dtype)})")
            self.store(acc)

    def store(self, acc: str) -> None:
        space = self.space
        emitter = TritonEmitter(self.writer, reader(space, self.masks, lambda node: ""), space.index_of)
        emitter.names[ACCUMULATOR] = acc
        store(space, emitter, self.stores, lambda along: self.masks(frozenset((ROW, COLUMN))))

    def operand(self, name: str, view: View, k: str, depth: str) -> None:
        space = self.space
        own = space.offset(view, skip=frozenset((DEPTH,)))
        side = ROW if view == self.left else COLUMN
        if side not in space.depends(view):  # the same for every row or column, yet a tile of its own
            own = " + ".join(part for part in (own, f"{space.groups[side].index} * 0") if part)
        stride = space.stride(view, DEPTH, 0, view.strides[-1]) if view.strides[-1] != 0 else "0"
        address = " + ".join(part for part in (space.writer.pointer(view.buffer), own, times(k, stride)) if part)
        masks = [
            mask for mask in (self.masks(space.depends(view)), "" if self.even_depth or not depth else f"{k} < {depth}") if mask
        ]
        mask = " & ".join(f"({m})" for m in masks) if len(masks) > 1 else "".join(masks)
        arguments = f", mask={mask}, other=0.0" if mask else ""
        space.writer.line(f"{name} = tl.load({address}{arguments})")

    def places(self, tile: list[str], rows: str, columns: str) -> None:
        writer, line = self.writer, self.writer.line
        if self.grouped:
            pid, across, group = writer.fresh("pid"), writer.fresh("across"), writer.fresh("group")
            height = writer.fresh("height")
            line(f"{pid} = tl.program_id(0)")
            line(f"{across} = tl.cdiv({columns}, {tile[1]})")
            line(f"{group} = {pid} // (8 * {across}) * 8")
            line(f"{height} = tl.minimum(tl.cdiv({rows}, {tile[0]}) - {group}, 8)")
            row = f"({group} + {pid} % (8 * {across}) % {height})"
            column = f"({pid} % (8 * {across}) // {height})"
        else:
            row, column = "tl.program_id(0)", "tl.program_id(1)"
        axes = ("[None, :]", "[:, None]") if self.turned else ("[:, None]", "[None, :]")
        line(f"{self.row} = ({row} * {tile[0]} + tl.arange(0, {tile[0]})){axes[0]}")
        if not self.walks:
            line(f"{self.column} = ({column} * {tile[1]} + tl.arange(0, {tile[1]})){axes[1]}")
        if self.base:
            line(f"{self.batch} = tl.program_id({1 if self.grouped else 2})")

    @property
    def grouped(self) -> bool:
        tiles = math.ceil(self.kernel.rows / self.tile.rows), math.ceil(self.kernel.columns / self.tile.columns)
        if self.walks:
            return False
        return (self.file.on("grouped_order") and min(tiles) >= 8) or tiles[1] > WIDEST_GRID

    def launch(self, rows: str, columns: str) -> None:
        writer, tile = self.writer, self.tile
        down = f"triton.cdiv({writer.size_text(rows)}, {tile.rows})"
        across = f"triton.cdiv({writer.size_text(columns)}, {tile.columns * (STRIP if self.walks else 1)})"
        batch = f", {self.space.total_text(BATCH)}" if self.base else ""
        grid = f"({down} * {across},{batch[1:] if batch else ''})" if self.grouped else f"({down}, {across}{batch})"
        options = [f"num_warps={tile.warps}"] if tile.warps != 4 else []
        options += [f"num_stages={tile.stages}"] if tile.stages != 3 else []
        writer.finish(grid, ", ".join(options))
