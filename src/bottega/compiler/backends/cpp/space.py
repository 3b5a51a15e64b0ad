"""The loops of a kernel as C names them, and where an element lies in terms of them.

Strides are written as products of loop sizes wherever the layout is dense, as people write them: `(n * channels + c) * inner + i`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bottega.compiler.allocate import axis_text
from bottega.compiler.backends.cpp.function import Function
from bottega.compiler.expression import Expression, Index, views, walk
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import Shape, View, contiguous_strides

SIZES = {
    1: (("count",), ("n",), ("size",), ("total",)),
    2: (("rows", "columns"), ("rows", "cols"), ("batch", "width"), ("outer", "inner")),
    3: (("batch", "channels", "inner"), ("n", "channels", "inner"), ("batch", "rows", "columns"), ("outer", "middle", "inner")),
    4: (("batch", "channels", "height", "width"), ("n", "c", "h", "w")),
}
INDICES = {
    1: (("i",),),
    2: (("r", "c"), ("row", "i"), ("i", "j"), ("r", "i")),
    3: (("b", "c", "i"), ("n", "c", "i"), ("i", "j", "k")),
    4: (("b", "c", "y", "x"), ("i", "j", "k", "l")),
}


@dataclass(frozen=True)
class Axis:
    """A loop: its index and its size as C text."""

    loop: Loop
    index: str
    size: str

    @property
    def length(self) -> int:
        return self.loop.size

    def step(self, view: View) -> int:
        return view.strides[self.loop.axes[-1]] if self.loop.axes else 0


def named(function: Function, loops: Sequence[Loop], operands: Sequence[View], role: str = "") -> list[Axis]:
    """Loops with names of the style's hand; every size becomes a parameter."""
    count = len(loops)
    sizes = function.style.pick(f"sizes{count}", SIZES.get(count, (tuple(f"n{i}" for i in range(count)),)))
    indices = function.style.pick(f"indices{count}", INDICES.get(count, (tuple(f"i{i}" for i in range(count)),)))
    axes = []
    for loop, size, index in zip(loops, sizes, indices):
        name = function.fresh(index, f"{index}{index}", f"{index}_at")
        if not loop.axes:
            axes.append(Axis(loop, name, "1"))
            continue
        python = function.size_of(loop.size, loop.axes, operands)
        axes.append(Axis(loop, name, function.size(python, size, f"{size}_size")))
    return axes


def joined(function: Function, axes: Sequence[Axis], operands: Sequence[View]) -> list[Axis]:
    """The axes merged further, as far as these operands alone allow; sizes become products."""
    result: list[Axis] = []
    for axis in axes:
        before = result[-1] if result else None
        if before is not None and all(before.step(view) == axis.step(view) * axis.length for view in operands):
            loop = Loop(before.length * axis.length, (*before.loop.axes, *axis.loop.axes))
            result[-1] = Axis(loop, axis.index, f"{before.size} * {axis.size}")
        else:
            result.append(axis)
    return result


def ordered_loops(shape: Shape, operands: Sequence[View], bodies: Iterable[Expression], lead: View) -> list[Loop]:
    """Merged loops over `shape`, outermost where `lead` takes its largest steps. Axes whose index is used stay alone."""
    order = sorted(range(len(shape)), key=lambda axis: (-lead.strides[axis] if shape[axis] > 1 else 0, axis))
    if not any(lead.strides):
        order = list(range(len(shape)))
    alone = {node.axis for body in bodies for node in walk(body) if isinstance(node, Index)}
    barriers = [at + shift for at, axis in enumerate(order) if axis in alone for shift in (0, 1)]
    turned = [replace(view, shape=tuple(shape), strides=tuple(view.strides[axis] for axis in order)) for view in operands]
    loops = merge(tuple(shape[axis] for axis in order), turned, barriers)
    return [Loop(loop.size, tuple(order[axis] for axis in loop.axes)) for loop in loops]


def index_names(axes: Iterable[Axis], rank: int) -> dict[int, str]:
    """The text for `Index` along each axis of the original space."""
    found = dict.fromkeys(range(rank), "0")
    for axis in axes:
        if len(axis.loop.axes) == 1:
            found[axis.loop.axes[0]] = axis.index
    return found


class Space:
    """Where elements lie, for a set of axes."""

    def __init__(self, function: Function, axes: Sequence[Axis]) -> None:
        self.function = function
        self.axes = list(axes)

    def place(self, view: View, computed: tuple[tuple[int, str, int], ...] = ()) -> str:
        terms = [
            (axis.step(view), axis.index, axis.length, axis.size) for axis in self.axes if axis.length > 1 and axis.step(view)
        ]
        for stride, text, size in computed:
            if size > 1:
                terms.append((stride, text, size, self._computed_size(view, stride, size)))
        pieces: list[str] = []
        held = ""
        step = 0
        for stride, index, length, extent in sorted(terms, key=lambda term: -term[0]):
            if held and step == stride * length and stride > 0:
                held = f"{factor(held)} * {factor(extent)} + {index}"
            else:
                self._flush(pieces, view, held, step)
                held = index
            step = stride
        self._flush(pieces, view, held, step)
        offset = self.function.offset(view)
        text = " + ".join(pieces) if pieces else ""
        if offset:
            text = f"{offset} + {text}" if text else offset
        return (text or "0").replace("+ -", "- ")

    def _flush(self, pieces: list[str], view: View, held: str, step: int) -> None:
        if not held:
            return
        if step == 1:
            pieces.append(held)
        elif step < 0:
            amount = "" if step == -1 else f" * {self._stride(view, -step)}"
            pieces.append(f"-{factor(held)}{amount}")
        else:
            pieces.append(f"{factor(held)} * {factor(self._stride(view, step))}")

    def _stride(self, view: View, stride: int) -> str:
        """A step that the view's own loops do not make up: that of a dimension the kernel does not walk, or of a slice."""
        product = 1
        texts: list[str] = []
        for axis in reversed(self.axes):
            if product < stride and axis.step(view) == 0 and stride % (product * axis.length) == 0:
                product *= axis.length
                texts.append(axis.size)
        if product == stride and texts and self.function.buffer(view.buffer).kind == "result":
            return " * ".join(factor(text) for text in reversed(texts))
        return self.function.stride(view, stride)

    def _computed_size(self, view: View, stride: int, size: int) -> str:
        buffer = self.function.buffer(view.buffer)
        for axis, have in enumerate(contiguous_strides(buffer.shape)):
            if have == stride and buffer.shape[axis] == size:
                return axis_text(buffer, axis) if axis_text(buffer, axis).isdigit() else str(size)
        return str(size)


def factor(text: str) -> str:
    if text.startswith("std::min(") and text.endswith(")") and text.count("(") == 1:
        return text
    if text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        return text
    return f"({text})" if " + " in text or " - " in text else text


def without(text: str, mark: str = "@") -> str:
    """An index with the axis that stands as `mark` at its first position."""
    text = re.sub(rf"{mark} \* \w+ \+ ", "", text)
    return text.replace(f" + {mark}", "").replace(mark, "0")


def loads(bodies: Iterable[Expression]) -> list[View]:
    return [view for body in bodies for view in views(body)]
