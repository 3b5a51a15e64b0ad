"""What convolutions of every kind share: names, sizes, and where in the source a tap of the window lies. Plain windows stand here too."""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.reading import reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace
from bottega.compiler.backends.triton.width import WIDEST_GRID
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import views
from bottega.compiler.kernel import ACCUMULATOR, Convolution
from bottega.compiler.loops import Loop

PIXEL, CHANNEL = 0, 1
LETTERS = {1: "x", 2: "yx", 3: "zyx"}
SIZES = {1: "L", 2: "HW", 3: "DHW"}
UNROLLED = 64
"""Windows of more taps are walked, not unrolled."""
LOCALS = frozenset(("a", "b", "c", "d", "at", "tap", "step", "blocks", "inside", "v", "phase"))


class ConvolutionWriter:
    """A convolution being written: its indices, its sizes, its place in the source."""

    def __init__(self, file: FileWriter, kernel: Convolution) -> None:
        self.file, self.kernel = file, kernel
        self.writer = writer = file.kernel_writer(kernel.origin)
        self.dims = len(kernel.stride)
        self.letters = LETTERS[self.dims]
        self.window = kernel.weight.shape[2:]
        self.taps = math.prod(self.window)
        self.inner = kernel.source.shape[1] // kernel.groups
        self.outer = kernel.shape[1] // kernel.groups
        bodies = [item.body for item in kernel.stores]
        self.operands = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
        writer.reserve([kernel.source.buffer, kernel.weight.buffer, *(view.buffer for view in self.operands)])
        # Before any pointer gets its name: a task may call its tensors as we call the tiles.
        writer.taken |= LOCALS | {f"{kind}{letter}" for kind in "ikp" for letter in "zyx"}
        self.x, self.w = writer.pointer(kernel.source.buffer), writer.pointer(kernel.weight.buffer)
        self.pixel = writer.fresh("pixel")
        self.oc = writer.fresh("oc")
        self.n = writer.fresh("n")
        self.out = [writer.fresh(f"o{letter}") for letter in self.letters]
        self.out_sizes = [f"O{size}" for size in SIZES[self.dims]]
        loops = [Loop(kernel.shape[0], (0,))] + [Loop(kernel.shape[2 + d], (2 + d,)) for d in range(self.dims)]
        groups = [
            AxisGroup(self.pixel, loops, [self.n, *self.out], ["images", *self.out_sizes], "pixels"),
            AxisGroup(self.oc, [Loop(kernel.shape[1], (1,))], [self.oc], ["OC"], "OC", constant=True),
        ]
        self.groups = groups
        self.space = IndexSpace(writer, kernel.shape, self.operands, groups)

    def extent(self, axis: int, name: str) -> str:
        """A size of the source, as a compile-time constant."""
        view = self.kernel.source
        space = IndexSpace(self.writer, view.shape, [view], [])
        return self.writer.parameter(f"size {name}", name, space.axis(axis, [view]) or str(view.shape[axis]), "constant")

    @staticmethod
    def joined(sizes: list[str]) -> str:
        return f"({' * '.join(sizes)})" if len(sizes) > 1 else sizes[0]

    def source_place(self, taps: list[str]) -> tuple[list[str], list[str]]:
        """Lines that give the source's indices for a tap; returns their names and the conditions under which they exist."""
        kernel, writer = self.kernel, self.writer
        names, inside = [], []
        for d, letter in enumerate(self.letters):
            stride, padding, dilation = kernel.stride[d], kernel.padding[d], kernel.dilation[d]
            step = taps[d] if dilation == 1 else f"{taps[d]} * {dilation}"
            name = f"i{letter}"
            size = self.extent(2 + d, SIZES[self.dims][d])
            if kernel.transposed:
                writer.line(f"{name} = {self.out[d]}{f' + {padding}' if padding else ''} - {step}")
                inside.append(f"({name} >= 0)")
                if stride > 1:
                    inside.append(f"({name} % {stride} == 0)")
                    inside.append(f"({name} // {stride} < {size})")
                    name = f"{name} // {stride}"
                else:
                    inside.append(f"({name} < {size})")
            else:
                place = f"{self.out[d]} * {stride}" if stride > 1 else self.out[d]
                writer.line(f"{name} = {place}{f' - {padding}' if padding else ''} + {step}")
                reach = (kernel.shape[2 + d] - 1) * stride - padding + (self.window[d] - 1) * dilation
                if padding:
                    inside.append(f"({name} >= 0)")
                if reach >= kernel.source.shape[2 + d]:
                    inside.append(f"({name} < {size})")
            names.append(name)
        return names, inside

    def taps_of(self, index: str, names: list[str]) -> None:
        """Takes a tap's number apart into its place in the window."""
        for d, name in enumerate(names):
            if self.window[d] == 1:
                self.writer.line(f"{name} = 0")
                continue
            rest = math.prod(self.window[d + 1 :])
            text = index + (f" // {rest}" if rest > 1 else "")
            self.writer.line(f"{name} = {text}{f' % {self.window[d]}' if d and self.window[d] > 1 else ''}")

    def plane(self) -> str:
        return " * ".join(self.extent(2 + d, SIZES[self.dims][d]) for d in range(self.dims))

    def place_text(self, names: list[str]) -> str:
        parts = []
        for d, name in enumerate(names):
            inner = [self.extent(2 + later, SIZES[self.dims][later]) for later in range(d + 1, self.dims)]
            base = f"({name})" if "//" in name and inner else name
            parts.append(" * ".join([base, *inner]))
        return " + ".join(parts)


class DirectConvolution(ConvolutionWriter):
    """One channel for each group: every output pixel is a window times its plane's weights, and there is no depth to multiply."""

    def write(self) -> None:
        """One channel for each group: every output pixel is a window times its plane's weights."""
        writer, kernel, line = self.writer, self.kernel, self.writer.line
        if self.many_blocks and math.prod(kernel.shape[:2]) > WIDEST_GRID:
            raise Refusal("more planes and blocks of them than a grid has programs")
        block = writer.constexpr("BLOCK", "512")
        plane, place, mask = writer.fresh("plane"), writer.fresh("place"), writer.fresh("mask")
        outputs, channels = self.space.size(CHANNEL, 0), self.extent(1, "C")
        self.groups[PIXEL].apart = True
        sizes = [self.space.size(PIXEL, 1 + d) for d in range(self.dims)]
        writer.indexes([*self.operands, kernel.source, kernel.weight])
        line(f"{plane} = tl.program_id({1 if self.many_blocks else 0})")
        line(f"{self.n} = {plane} // {outputs}")
        line(f"{self.oc} = {plane} % {outputs}")
        line(f"{place} = tl.program_id({0 if self.many_blocks else 1}) * {block} + tl.arange(0, {block})")
        line(f"{mask} = {place} < {' * '.join(sizes)}")
        for d, name in enumerate(self.out):
            text = place + (f" // {self.joined(sizes[d + 1 :])}" if sizes[d + 1 :] else "")
            line(f"{name} = {text}{f' % {sizes[d]}' if d else ''}")
        source = plane if self.outer == 1 else f"({self.n} * {channels} + {self.oc} // {self.outer})"
        acc = writer.fresh("acc")
        line(f"{acc} = tl.zeros(({block},), tl.float32)")
        taps = [f"k{letter}" for letter in self.letters]
        loop = "tl.static_range" if self.taps <= UNROLLED else "range"
        depth = writer.depth
        for d, tap in enumerate(taps):
            line(f"for {tap} in {loop}({self.window[d]}):")
            writer.depth += 1
        names, inside = self.source_place(taps)
        conditions = " & ".join([mask, *inside])
        number = " + ".join(
            f"{tap} * {math.prod(self.window[d + 1 :])}" if self.window[d + 1 :] else tap for d, tap in enumerate(taps)
        )
        narrow = ".to(tl.float32)" if kernel.dtype != "float32" else ""
        line(
            f"v = tl.load({self.x} + {source} * {self.plane()} + {self.place_text(names)}, mask={conditions}, other=0.0){narrow}"
        )
        line(f"{acc} += v * tl.load({self.w} + {self.oc} * {self.taps} + {number}){narrow}")
        writer.depth = depth

        own = IndexSpace(writer, kernel.shape, self.operands, self.by_place(place))
        emitter = TritonEmitter(writer, reader(own, lambda along: mask if 1 in along else "", lambda node: ""), own.index_of)
        emitter.names[ACCUMULATOR] = acc
        store(own, emitter, list(kernel.stores), lambda along: mask)
        view = kernel.stores[0].view
        planes = f"{view.buffer}.shape[0] * {view.buffer}.shape[1]"
        if self.file.plan.buffers[view.buffer].shape[:2] != kernel.shape[:2]:
            planes = str(kernel.shape[0] * kernel.shape[1])
        texts = [next(p.text for p in writer.parameters.values() if p.name == size) for size in sizes]
        blocks = f"triton.cdiv({' * '.join(texts)}, 512)"
        writer.finish(f"({blocks}, {planes})" if self.many_blocks else f"({planes}, {blocks})")

    @property
    def many_blocks(self) -> bool:
        """Whether a plane has more blocks than a grid has programs along its second axis: then they are its first."""
        return math.ceil(math.prod(self.kernel.shape[2:]) / 512) > WIDEST_GRID

    def by_place(self, place: str) -> list[AxisGroup]:
        """Image and channel are the same for a whole program; only the place differs from lane to lane."""
        pixel, channel = self.groups
        image = AxisGroup(self.n, pixel.loops[:1], [self.n], ["images"], "images", constant=True)
        total = self.out_sizes[0] if self.dims == 1 else "places"
        return [image, AxisGroup(place, pixel.loops[1:], self.out, self.out_sizes, total, constant=True, apart=True), channel]
