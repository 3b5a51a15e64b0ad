"""Products of groups of rows, each with its own matrix, in one launch: a program finds its group by the tiles that come before it.

What the rows are gathered by and what gates the result are parts of the kernel, so that neither the gathered rows nor both halves of a
gated layer ever lie in memory.
"""

from __future__ import annotations

from dataclasses import replace

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import TILE, FileWriter
from bottega.compiler.backends.triton.matmul import PROGRAMS, precision
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, times
from bottega.compiler.backends.triton.spelling import kind_of
from bottega.compiler.build_step import Refusal
from bottega.compiler.choices import Tile
from bottega.compiler.expression import Expression, Gather, Index, Load, views, walk, with_views
from bottega.compiler.kernel import GROUPED_PARTS, GroupedProduct, StoreOp
from bottega.compiler.loops import Loop
from bottega.compiler.view import View

ROW, COLUMN, DEPTH = range(3)


def write_grouped_product(file: FileWriter, kernel: GroupedProduct) -> None:
    element = kernel.element
    if kind_of(kernel.dtype) != "float" or kernel.dtype == "float64" or not isinstance(element, Load | Gather):
        raise Refusal(f"a grouped product of {kernel.dtype} is not written in Triton")
    if any(isinstance(node, Index) for node in walk(element)):
        raise Refusal("a grouped product whose rows depend on their place")
    # As it lies: a product takes its operands in their own type.
    _Writer(file, replace(kernel, element=replace(element, dtype="float32"))).write()


def tile_of(file: FileWriter, kernel: GroupedProduct) -> Tile:
    """As high as a group of the average size, since its last tile is partly empty; half as wide where each tile is two products."""
    chosen = file.plan.tuning.tile
    if chosen is None:
        high = next((size for size in (128, 64, 32) if kernel.rows >= size * kernel.groups), 16)
        wide = high == 128 and -(-kernel.rows // high) * (kernel.parts * kernel.columns // 256) >= PROGRAMS
        chosen = Tile(high, 256 if wide else 128, 64, 8, 3) if high == 128 else Tile(high, 128, 64, 4, 4)
    return replace(chosen, columns=max(16, chosen.columns // kernel.parts))


class _Writer:
    def __init__(self, file: FileWriter, kernel: GroupedProduct) -> None:
        self.file, self.kernel = file, kernel
        self.writer = writer = file.kernel_writer(kernel.origin)
        self.shape = (kernel.rows, kernel.columns, kernel.depth)
        self.element = self.wide(kernel.element, rows_only=True)
        self.right = View(
            kernel.right.buffer, self.shape, (0, kernel.right.strides[2], kernel.right.strides[1]), kernel.right.offset
        )
        self.stores = [StoreOp(self.seen(s.view), self.wide(s.body), s.dtype) for s in kernel.stores]
        bodies = [item.body for item in self.stores]
        operands = [v for b in (self.element, *bodies) for v in views(b)] + [self.right, *(s.view for s in self.stores)]
        writer.reserve([kernel.ends.buffer, *(view.buffer for view in operands)])
        self.row, self.column, self.k = (writer.fresh(name) for name in ("row", "column", "k"))
        groups = [
            AxisGroup(index, [Loop(size, (axis,))], [index], [name], name)
            for axis, (index, size, name) in enumerate(zip((self.row, self.column, self.k), self.shape, ("M", "N", "K")))
        ]
        self.space = IndexSpace(writer, self.shape, operands, groups)
        self.space.touch(operands, bodies)
        writer.indexes([*operands, kernel.ends])
        self.tile = tile_of(file, kernel)
        self.high = writer.fresh("high")

    def seen(self, view: View) -> View:
        """A look over (rows, columns), also over the depth."""
        return View(view.buffer, self.shape, (*view.strides, 0), view.offset, view.text)

    def wide(self, body: Expression, rows_only: bool = False) -> Expression:
        def changed(view: View) -> View:
            row, other = view.strides
            return View(view.buffer, self.shape, (row, 0, other), view.offset, view.text) if rows_only else self.seen(view)

        found = with_views(body, changed)
        assert found is not None
        return found

    def masks(self, along: frozenset[int]) -> str:
        parts = [f"{self.row} < {self.high}"] if ROW in along else []
        parts += [f"{self.column} < {self.space.size(COLUMN, 0)}"] if COLUMN in along else []
        parts += [f"{self.k} < {self.space.size(DEPTH, 0)}"] if DEPTH in along else []
        return " & ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)

    def write(self) -> None:
        writer, kernel, tile = self.writer, self.kernel, self.tile
        sizes = [writer.constexpr(name, str(value)) for name, value in zip(TILE, (tile.rows, tile.columns, tile.depth))]
        group, low = self.found(sizes[0])
        with writer.block(f"if {low} < {self.high}:"):
            writer.line(f"{self.row} = {low} + tl.arange(0, {sizes[0]})[:, None]")
            writer.line(f"{self.column} = (tl.program_id(1) * {sizes[1]} + tl.arange(0, {sizes[1]}))[None, :]")
            emitter = TritonEmitter(writer, reader(self.space, self.masks, lambda node: "0"), self.space.index_of)
            if isinstance(self.element, Gather):
                emitter.named(self.element.index, "place")
            sums = [writer.fresh("acc" if part == 0 else f"acc{part + 1}") for part in range(kernel.parts)]
            for name in sums:
                writer.line(f"{name} = tl.zeros(({sizes[0]}, {sizes[1]}), tl.float32)")
            start = writer.fresh("start")
            with writer.block(f"for {start} in range(0, {self.space.size(DEPTH, 0)}, {sizes[2]}):"):
                self.step(emitter, start, sizes, sums, group)
            tail = emitter.inner()
            tail.names.update(zip(GROUPED_PARTS, sums))
            store(self.space, tail, self.stores, lambda along: self.masks(frozenset((ROW, COLUMN))))
        down = f"triton.cdiv({self.space.text((ROW,))}, {tile.rows}) + {kernel.groups}"
        options = [f"num_warps={tile.warps}"] if tile.warps != 4 else []
        options += [f"num_stages={tile.stages}"] if tile.stages != 3 else []
        writer.finish(f"({down}, triton.cdiv({self.space.text((COLUMN,))}, {tile.columns}))", ", ".join(options))

    def found(self, height: str) -> tuple[str, str]:
        """Lines that find the group of a program, and its first row; names of both."""
        writer, kernel, line = self.writer, self.kernel, self.writer.line
        groups = writer.constexpr("GROUPS", f"triton.next_power_of_2({kernel.groups})")
        tile, lane, end, begin, tiles, before, here, group, low = (
            writer.fresh(name) for name in ("tile", "lane", "end", "begin", "tiles", "before", "here", "group", "low")
        )
        pointer = writer.pointer(kernel.ends.buffer)
        line(f"{tile} = tl.program_id(0)")
        line(f"{lane} = tl.arange(0, {groups})")
        line(f"{end} = tl.load({pointer} + {lane}, mask={lane} < {kernel.groups}, other=0)")
        line(f"{begin} = tl.load({pointer} + {lane} - 1, mask=({lane} > 0) & ({lane} < {kernel.groups}), other=0)")
        line(f"{tiles} = tl.cdiv({end} - {begin}, {height})")
        line(f"{before} = tl.cumsum({tiles}, 0) - {tiles}")
        line(f"{here} = ({tile} >= {before}) & ({tile} < {before} + {tiles})")
        line(f"{group} = tl.sum(tl.where({here}, {lane}, 0), 0)")
        line(f"{low} = tl.sum(tl.where({here}, {begin} + ({tile} - {before}) * {height}, 0), 0)")
        line(f"{self.high} = tl.sum(tl.where({here}, {end}, 0), 0)")
        return group, low

    def step(self, emitter: TritonEmitter, start: str, sizes: list[str], sums: list[str], group: str) -> None:
        """One piece of the depth: the rows once, and the matrix of each part."""
        writer, space, kernel = self.writer, self.space, self.kernel
        down = writer.fresh("down")
        writer.line(f"{self.k} = {start} + tl.arange(0, {sizes[2]})[None, :]")
        writer.line(f"{down} = {start} + tl.arange(0, {sizes[2]})[:, None]")
        (left,) = emitter.inner().write([self.element])
        far = times(group, str(kernel.right.strides[0]))
        along = space.offset(self.right, skip=frozenset((DEPTH,)))
        deep = times(down, space.stride(self.right, DEPTH, 0, self.right.strides[DEPTH]))
        mask = f"({down} < {space.size(DEPTH, 0)}) & ({self.column} < {space.size(COLUMN, 0)})"
        for part, name in enumerate(sums):
            shift = f" + {part * kernel.columns * kernel.right.strides[2]}" if part else ""
            address = f"{writer.pointer(self.right.buffer)} + {far} + {along}{shift} + {deep}"
            right = writer.fresh("b")
            writer.line(f"{right} = tl.load({address}, mask={mask}, other=0.0)")
            writer.line(f"{name} = tl.dot({left}, {right}, {name}{precision(self.file, kernel.dtype)})")
