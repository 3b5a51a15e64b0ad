"""Convolutions as products whose left operand is gathered: rows are output pixels, columns are output channels, depth is the window."""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.direct_convolution import CHANNEL, PIXEL, ConvolutionWriter
from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import TILE, FileWriter
from bottega.compiler.backends.triton.matmul import PROGRAMS, precision
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.space import IndexSpace
from bottega.compiler.choices import Tile
from bottega.compiler.kernel import ACCUMULATOR, Convolution

DEEP = 16
"""Channels from which on a block of depth lies within one tap."""


class TiledConvolution(ConvolutionWriter):
    """Tiles of pixels by output channels, with a loop over the depth."""

    def __init__(self, file: FileWriter, kernel: Convolution) -> None:
        super().__init__(file, kernel)
        self.tile = self.tile_of()
        self.by_taps = kernel.transposed or (file.on("taps_outside") and self.inner >= DEEP)
        self.packed = file.on("taps_outside") and self.inner >= DEEP and not (kernel.transposed and kernel.groups > 1)

    def tile_of(self) -> Tile:
        """Rows are pixels, columns are output channels."""
        if not self.file.on("tuned_tiles"):
            return Tile(64, 64, 32)
        depth = 32 if self.inner >= 32 and -self.inner % 32 <= 16 * (self.inner > 64) else 16
        pixels = self.kernel.shape[0] * math.prod(self.kernel.shape[2:])
        programs = math.ceil(self.outer / 128) * math.ceil(pixels / 128) * self.kernel.groups
        if self.outer > 64 and programs >= PROGRAMS:
            return Tile(128, 128, depth, 8, 3)
        # Sixty-four columns are too many sums for the registers of four warps: they would be kept in memory.
        return Tile(128, 64, depth, 8, 3) if self.outer > 32 else Tile(128, 32, depth, 4, 3)

    def places(self) -> None:
        """The image and the place of each output pixel."""
        sizes = [self.space.size(PIXEL, 1 + d) for d in range(self.dims)]
        self.writer.line(f"{self.n} = {self.pixel} // {self.joined(sizes)}")
        for d, name in enumerate(self.out):
            text = self.pixel + (f" // {self.joined(sizes[d + 1 :])}" if sizes[d + 1 :] else "")
            self.writer.line(f"{name} = {text} % {sizes[d]}")

    def write(self) -> None:
        writer, kernel, line = self.writer, self.kernel, self.writer.line
        sizes = (self.tile.rows, self.tile.columns, self.tile.depth)
        tile = [writer.constexpr(name, str(value)) for name, value in zip(TILE, sizes)]
        pixels = writer.parameter("size pixels", "pixels", self.pixels_text(), "size")
        writer.indexes([*self.operands, kernel.source, kernel.weight])
        line(f"{self.pixel} = (tl.program_id(0) * {tile[0]} + tl.arange(0, {tile[0]}))[:, None]")
        line(f"{self.oc} = (tl.program_id(1) * {tile[1]} + tl.arange(0, {tile[1]}))[None, :]")
        outputs, channels = self.space.size(CHANNEL, 0), self.extent(1, "C")
        group, local, depth = "", self.oc, channels
        self.limit = f"{self.oc} < {outputs}"
        if kernel.groups > 1:
            group = writer.fresh("group")
            line(f"{group} = tl.program_id(2)")
            own = writer.parameter("size OG", "OG", f"{self.out_channels()} // {kernel.groups}", "constant")
            depth = writer.parameter("size CG", "CG", f"{self.channels_text()} // {kernel.groups}", "constant")
            local = writer.fresh("local")
            line(f"{local} = {self.oc}")
            line(f"{self.oc} = {group} * {own} + {local}")
            self.limit = f"{local} < {own}"
        self.places()
        source = f"{self.n} * {channels} * {self.plane()}"
        source += f" + {group} * {depth} * {self.plane()}" if group else ""
        acc = writer.fresh("acc")
        line(f"{acc} = tl.zeros(({tile[0]}, {tile[1]}), tl.float32)")
        (self.by_tap if self.by_taps else self.by_depth)(acc, tile, source, depth, pixels, local, group)
        emitter = TritonEmitter(writer, reader(self.space, self.masks, lambda node: ""), self.space.index_of)
        emitter.names[ACCUMULATOR] = acc
        for view in self.operands:
            self.space.offset(view)
        store(self.space, emitter, list(kernel.stores), lambda along: self.masks(frozenset((PIXEL, CHANNEL))))
        self.launch()

    def out_channels(self) -> str:
        return self.space.text((1,))

    def channels_text(self) -> str:
        view = self.kernel.source
        return IndexSpace(self.writer, view.shape, [view], []).axis(1, [view]) or str(view.shape[1])

    def masks(self, along: frozenset[int]) -> str:
        parts = []
        if CHANNEL in along:
            parts.append(self.limit)
        if PIXEL in along:
            parts.append(f"{self.pixel} < {self.writer.parameters['size pixels'].name}")
            parts += self.overhang()
        return " & ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)

    def by_depth(self, acc: str, tile: list[str], source: str, channels: str, pixels: str, local: str, group: str) -> None:
        """Depth runs over channels and taps as the weights lie in memory."""
        writer, line = self.writer, self.writer.line
        start, d = writer.fresh("start"), "d"
        taps = [f"k{letter}" for letter in self.letters]
        total = f"{channels} * {self.taps}" if self.taps > 1 else channels
        with writer.block(f"for {start} in range(0, {total}, {tile[2]}):"):
            line(f"{d} = {start} + tl.arange(0, {tile[2]})")
            line(
                f"b = tl.load({self.w} + {self.oc} * {total} + {d}[:, None], mask=({self.limit}) & ({d}[:, None] < {total}), other=0.0)"
            )
            line(f"{d} = {d}[None, :]")
            line(f"c = {d} // {self.taps}" if self.taps > 1 else f"c = {d}")
            self.taps_of(d, taps)
            if self.window[0] > 1:
                writer.lines[-self.dims] += f" % {self.window[0]}"
            names, inside = self.source_place(taps)
            conditions = [f"({self.pixel} < {pixels})", f"({d} < {total})", *inside]
            line(f"inside = {' & '.join(conditions)}")
            line(f"a = tl.load({self.x} + {source} + c * {self.plane()} + {self.place_text(names)}, mask=inside, other=0.0)")
            line(f"{acc} = tl.dot(a, b, {acc}{precision(self.file, self.kernel.dtype)})")

    def by_tap(self, acc: str, tile: list[str], source: str, channels: str, pixels: str, local: str, group: str) -> None:
        """Depth runs tap by tap, channels inside: one loop, so that loads of the next step overlap the product of this one."""
        writer, line, kernel = self.writer, self.writer.line, self.kernel
        outputs = self.space.size(CHANNEL, 0)
        line(f"blocks = tl.cdiv({channels}, {tile[2]})")
        with writer.block(f"for step in range({self.steps()} * blocks):"):
            line("tap = step // blocks")
            line(f"c = step % blocks * {tile[2]} + tl.arange(0, {tile[2]})")
            taps = [f"k{letter}" for letter in self.letters]
            names, inside = self.tap_place(taps)
            if self.packed:
                weight = f"(tap * {outputs} + {self.oc}) * {channels} + c[:, None]"
            elif kernel.transposed:
                own = writer.parameters["size OG"].name if group else outputs
                start = f"({group} * {channels} + c[:, None])" if group else "c[:, None]"
                weight = f"({start} * {own} + {local}) * {self.taps} + tap"
            else:
                weight = f"({self.oc} * {channels} + c[:, None]) * {self.taps} + tap"
            line(f"b = tl.load({self.w} + {weight}, mask=({self.limit}) & (c[:, None] < {channels}), other=0.0)")
            conditions = [f"({self.pixel} < {pixels})", *inside]
            line(f"inside = {' & '.join(conditions)}")
            line(f"at = {source} + {self.place_text(names)}")
            line(
                f"a = tl.load({self.x} + at + c[None, :] * {self.plane()}, mask=inside & (c[None, :] < {channels}), other=0.0)"
            )
            line(f"{acc} = tl.dot(a, b, {acc}{precision(self.file, self.kernel.dtype)})")

    def launch(self) -> None:
        writer, tile, kernel, file = self.writer, self.tile, self.kernel, self.file
        if self.packed:
            packed = file.variable("packed")
            spots = ", ".join(str(2 + d) for d in range(self.dims))
            weight = kernel.weight.buffer
            order = f"{spots}, 1, 0" if kernel.transposed else f"{spots}, 0, 1"
            whole = file.plan.buffers[weight].shape == kernel.weight.shape  # or one that was computed in another shape
            seen = weight if whole else f"{weight}.view({', '.join(map(str, kernel.weight.shape))})"
            file.forward.append(f"{packed} = {seen}.permute({order}).contiguous()")
            writer.parameters[f"pointer {weight}"].text = packed
        pixels = writer.size_text(writer.parameters["size pixels"].name)
        across = f"triton.cdiv({pixels}, {tile.rows})"
        groups = f", {kernel.groups}" if kernel.groups > 1 else self.more_programs()
        own = "OG" if kernel.groups > 1 else "OC"
        outputs = next(p.text for p in writer.parameters.values() if p.name == own)
        options = [f"num_warps={tile.warps}"] if tile.warps != 4 else []
        options += [f"num_stages={tile.stages}"] if tile.stages != 3 else []
        writer.finish(f"({across}, triton.cdiv({outputs}, {tile.columns}){groups})", ", ".join(options))

    # What transposed convolutions by phase do in another way

    def pixels_text(self) -> str:
        return self.space.total_text(PIXEL)

    def tap_place(self, taps: list[str]) -> tuple[list[str], list[str]]:
        self.taps_of("tap", taps)
        return self.source_place(taps)

    def steps(self) -> int:
        return self.taps

    def overhang(self) -> list[str]:
        """Further conditions under which an output exists."""
        return []

    def more_programs(self) -> str:
        return ""
