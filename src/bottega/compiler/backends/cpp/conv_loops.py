"""A convolution's loops once they have names, and the plain way to write it: one output at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import collapse, head, indent, nest
from bottega.compiler.backends.cpp.map import pointers, stores, tail
from bottega.compiler.backends.cpp.pool import LETTERS, SIZES
from bottega.compiler.backends.cpp.scalar import compute_type
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import ACCUMULATOR, Convolution
from bottega.compiler.loops import Loop
from bottega.compiler.view import View


class Field:
    """Names of a convolution's loops, and where its operands lie in terms of them."""

    def __init__(self, function: FunctionWriter, kernel: Convolution) -> None:
        self.function, self.kernel = function, kernel
        self.count = len(kernel.stride)
        if self.count not in LETTERS:
            raise Refusal("a convolution over more than three dimensions")
        bodies = [store.body for store in kernel.stores]
        function.pointer(kernel.source.buffer)
        function.pointer(kernel.weight.buffer)
        pointers(function, bodies, kernel.stores)
        outputs = [*(store.view for store in kernel.stores), *loads(bodies)]
        source, weight = kernel.source, kernel.weight

        def axis(size: int, at: int, index: str, wishes: tuple[str, ...], views: list[View]) -> Axis:
            loop = Loop(size, (at,))
            return Axis(
                loop,
                function.fresh(index, f"{index}_at"),
                function.size(function.size_of(size, (at,), views), *wishes) if size > 1 else "1",
            )

        names = ("n", "o", "c")
        self.batch = axis(kernel.shape[0], 0, names[0], ("batch", "images"), [source])
        self.out_channel = axis(kernel.shape[1], 1, names[1], ("out_channels", "outputs"), outputs)
        self.per_group = kernel.shape[1] // kernel.groups
        depth = source.shape[1] // kernel.groups
        if kernel.groups > 1 and depth > 1:
            text = function.size_of(source.shape[1], (1,), [source])
            size = function.size(f"{text} // {kernel.groups}", "channels", "inputs")
            self.channel = Axis(Loop(depth, (1,)), function.fresh(names[2], f"{names[2]}_at"), size)
        else:
            self.channel = axis(depth, 1, names[2], ("channels", "inputs"), [source])
        letters = LETTERS[self.count]
        self.out, self.source, self.tap = [], [], []
        for at, (letter, size) in enumerate(zip(letters, SIZES[self.count])):
            self.source.append(axis(source.shape[2 + at], 2 + at, f"i{letter}", (size, f"in_{size}"), [source]))
            self.out.append(axis(kernel.shape[2 + at], 2 + at, f"o{letter}", (f"out_{size}", f"o{size}"), outputs))
            self.tap.append(axis(weight.shape[2 + at], 2 + at, f"k{letter}", (f"kernel_{size}", f"k{size}"), [weight]))
        self.kind = compute_type(kernel.dtype)
        self.depthwise = depth == 1 and self.per_group == 1

    def element(self, channel: str = "", **places: str) -> str:
        """One input element, its channel given within the group."""
        axes = [
            self.batch,
            replace(
                self.channel,
                loop=Loop(self.kernel.source.shape[1], (1,)),
                index=channel or self.source_channel(),
                size=self.all_channels(),
            ),
            *self.source,
        ]
        axes = [replace(axis, index=places.get(axis.index, axis.index)) for axis in axes]
        text = f"{self.function.pointer(self.kernel.source.buffer)}[{LoopSpace(self.function, axes).place(self.kernel.source)}]"
        return self.converted(text)

    def converted(self, text: str) -> str:
        return CppEmitter(self.function, LoopSpace(self.function, []).place, {}).converted(text, self.kernel.dtype)

    def all_channels(self) -> str:
        if self.kernel.groups == 1:
            return self.channel.size
        size = self.kernel.source.shape[1]
        return self.function.size(self.function.size_of(size, (1,), [self.kernel.source]), "in_channels", "all_channels")

    def source_channel(self) -> str:
        """The input channel for the output channel's group."""
        if self.kernel.groups == 1:
            return self.channel.index
        group = self.out_channel.index if self.per_group == 1 else f"{self.out_channel.index} / {self.out_per_group()}"
        if self.channel.length == 1:
            return f"({group})" if " " in group else group
        return f"({group} * {self.channel.size} + {self.channel.index})"

    def out_per_group(self) -> str:
        return f"({self.out_channel.size} / {self.kernel.groups})"

    def weight_axes(self, out_channel: str = "") -> list[Axis]:
        kernel = self.kernel
        out = replace(self.out_channel, index=out_channel or self.out_channel.index)
        if not kernel.transposed:
            return [replace(out, loop=Loop(out.length, (0,))), self.channel, *self.tap]
        inside = out.index if kernel.groups == 1 else f"({out.index} % {self.out_per_group()})"
        size = out.size if kernel.groups == 1 else self.out_per_group()
        first = replace(
            self.channel, loop=Loop(kernel.source.shape[1], (0,)), index=self.source_channel(), size=self.all_channels()
        )
        return [first, Axis(Loop(self.per_group, (1,)), inside if self.per_group > 1 else "0", size), *self.tap]

    def weight(self, out_channel: str = "") -> str:
        axes = self.weight_axes(out_channel)
        text = f"{self.function.pointer(self.kernel.weight.buffer)}[{LoopSpace(self.function, axes).place(self.kernel.weight)}]"
        return self.converted(text)

    def tail(self, accumulator: str) -> tuple[list[str], list[str]]:
        """The results along the last dimension: what is the same for all of it, and each of them."""
        emitter, space = self._written(accumulator)
        return tail(emitter, space, self.kernel.stores, self.out[-1], (ACCUMULATOR,))

    def results(self, accumulator: str) -> list[str]:
        emitter, space = self._written(accumulator)
        return stores(emitter, space, self.kernel.stores)

    def _written(self, accumulator: str) -> tuple[CppEmitter, LoopSpace]:
        axes = [self.batch, self.out_channel, *self.out]
        space = LoopSpace(self.function, axes)
        names = {ACCUMULATOR: (accumulator, self.kind)}
        return CppEmitter(self.function, space.place, names, index_names(axes, len(self.kernel.shape))), space


def _position(field: Field, at: int, tap: str) -> str:
    kernel = field.kernel
    text = field.out[at].index + (f" * {kernel.stride[at]}" if kernel.stride[at] != 1 else "")
    text += f" + {tap}" + (f" * {kernel.dilation[at]}" if kernel.dilation[at] != 1 else "")
    return text + (f" - {kernel.padding[at]}" if kernel.padding[at] else "")


def plain(field: Field) -> list[str]:
    def place_of(at: int) -> list[str]:
        place, size = field.source[at].index, field.source[at].size
        lines = [f"const int64_t {place} = {_position(field, at, field.tap[at].index)};"]
        return [*lines, f"if ({place} < 0 || {place} >= {size}) continue;"] if field.kernel.padding[at] else lines

    return _over_taps(field, place_of)


def plain_transposed(field: Field) -> list[str]:
    return _over_taps(field, lambda at: transposed_place(field, at))


def transposed_place(field: Field, at: int) -> list[str]:
    """Where along one dimension the input of an output and a tap lies."""
    kernel, tap, place, size = field.kernel, field.tap[at].index, field.source[at].index, field.source[at].size
    far = f"{field.out[at].index}" + (f" + {kernel.padding[at]}" if kernel.padding[at] else "") + f" - {tap}"
    far += f" * {kernel.dilation[at]}" if kernel.dilation[at] != 1 else ""
    if kernel.stride[at] == 1:
        return [f"const int64_t {place} = {far};", f"if ({place} < 0 || {place} >= {size}) continue;"]
    name = field.function.fresh(f"far_{LETTERS[field.count][at]}", "far")
    return [
        f"const int64_t {name} = {far}, {place} = {name} / {kernel.stride[at]};",
        f"if ({name} < 0 || {name} % {kernel.stride[at]} != 0 || {place} >= {size}) continue;",
    ]


def _over_taps(field: Field, place_of: Callable[[int], list[str]]) -> list[str]:
    """One sum for each output over channels and taps. `place_of` gives the lines that find the input's place along one dimension."""
    total = field.function.fresh("sum", "total")
    lines = [f"{field.kind} {total} = 0;"]
    depth = 0
    if field.channel.length > 1:
        lines.append(head(field.channel))
        depth = 1
    closing: list[str] = []
    for at in range(field.count):
        lines.append(indent(head(field.tap[at]) + " {", depth))
        lines += [indent(line, depth + 1) for line in place_of(at)]
        closing.insert(0, indent("}", depth))
        depth += 1
    lines.append(indent(f"{total} += {field.element()} * {field.weight()};", depth))
    lines += [*closing, *field.results(total)]
    axes = [field.batch, field.out_channel, *field.out]
    return [f"#pragma omp parallel for{collapse(len(axes) - 1)} schedule(static)", *nest(axes, lines)]
