"""Transposed convolutions with a stride, by phase: outputs that lie a stride apart see the same taps, and only those."""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.direct_convolution import PIXEL, SIZES
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.tiled_convolution import TiledConvolution
from bottega.compiler.kernel import Convolution


class PhasedConvolution(TiledConvolution):
    def __init__(self, file: FileWriter, kernel: Convolution) -> None:
        super().__init__(file, kernel)
        self.groups[PIXEL].apart = True

    def phase_sizes(self) -> list[str]:
        """How many places each phase has along a dimension, as names."""
        names = []
        for d in range(self.dims):
            size = self.space.size(PIXEL, 1 + d)
            text = next(p.text for p in self.writer.parameters.values() if p.name == size)
            own = f"triton.cdiv({text}, {self.kernel.stride[d]})" if self.kernel.stride[d] > 1 else text
            names.append(self.writer.parameter(f"size Q{d}", f"Q{SIZES[self.dims][d]}", own, "constant"))
        return names

    def pixels_text(self) -> str:
        self.phase_sizes()
        texts = [self.writer.parameters[f"size Q{d}"].text for d in range(self.dims)]
        return " * ".join([self.space.text((0,)) if self.kernel.shape[0] > 1 else "1", *texts])

    def places(self) -> None:
        line, sizes = self.writer.line, self.phase_sizes()
        line("phase = tl.program_id(2)")
        line(f"{self.n} = {self.pixel} // {self.joined(sizes)}")
        for d, name in enumerate(self.out):
            stride = self.kernel.stride[d]
            later = math.prod(self.kernel.stride[d + 1 :])
            own = "phase" + (f" // {later}" if later > 1 else "") + (f" % {stride}" if d else "")
            text = self.pixel + (f" // {self.joined(sizes[d + 1 :])}" if sizes[d + 1 :] else "") + f" % {sizes[d]}"
            if stride > 1:
                line(f"p{self.letters[d]} = {own}")
                text += f" * {stride} + p{self.letters[d]}"
            line(f"{name} = {text}")

    def tap_place(self, taps: list[str]) -> tuple[list[str], list[str]]:
        line, inside, names = self.writer.line, [], []
        counts = [math.ceil(w / s) for w, s in zip(self.window, self.kernel.stride)]
        for d, letter in enumerate(self.letters):
            stride, padding = self.kernel.stride[d], self.kernel.padding[d]
            rest = math.prod(counts[d + 1 :])
            place = "tap" + (f" // {rest}" if rest > 1 else "") + (f" % {counts[d]}" if d and counts[d] > 1 else "")
            if d and counts[d] == 1:
                place = "0"
            if stride > 1:
                first = f"(p{letter} + {padding}) % {stride}" if padding else f"p{letter}"
                line(f"{taps[d]} = {first} + {place} * {stride}")
                line(f"i{letter} = ({self.out[d]}{f' + {padding}' if padding else ''} - {taps[d]}) // {stride}")
            else:
                line(f"{taps[d]} = {place}")
                line(f"i{letter} = {self.out[d]}{f' + {padding}' if padding else ''} - {taps[d]}")
            size = self.extent(2 + d, SIZES[self.dims][d])
            inside += [f"(i{letter} >= 0)", f"(i{letter} < {size})"]
            if self.window[d] % stride:  # a tap too many, for some phases
                inside.append(f"({self.out[d]}{f' + {padding}' if padding else ''} - i{letter} * {stride} < {self.window[d]})")
            names.append(f"i{letter}")
        if self.taps > 1:
            texts = [
                tap if not self.window[d + 1 :] else f"{tap} * {math.prod(self.window[d + 1 :])}" for d, tap in enumerate(taps)
            ]
            number = " + ".join(texts)
            uneven = any(w % s for w, s in zip(self.window, self.kernel.stride))
            line(f"tap = tl.minimum({number}, {self.taps - 1})" if uneven else f"tap = {number}")
        return names, inside

    def steps(self) -> int:
        return math.prod(math.ceil(w / s) for w, s in zip(self.window, self.kernel.stride))

    def overhang(self) -> list[str]:
        uneven = [d for d in range(self.dims) if self.kernel.shape[2 + d] % self.kernel.stride[d]]
        return [f"{self.out[d]} < {self.space.size(PIXEL, 1 + d)}" for d in uneven]

    def more_programs(self) -> str:
        return f", {math.prod(self.kernel.stride)}"
