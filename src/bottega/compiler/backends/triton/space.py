"""A kernel's loops as index names, sizes and addresses: every stride is said in terms of sizes, and every size read off a tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from bottega.compiler.allocate import axis_text
from bottega.compiler.backends.triton.kernel_writer import KernelWriter
from bottega.compiler.backends.triton.shape_index import Lookup, part_name
from bottega.compiler.backends.triton.width import INT32
from bottega.compiler.expression import Expression, Index, walk
from bottega.compiler.loops import Loop, strides_along
from bottega.compiler.view import Shape, View, contiguous_strides


@dataclass
class AxisGroup:
    """Loops that one index runs over together. Where an operand tells them apart, the index is taken apart by division."""

    index: str
    loops: list[Loop]
    indices: list[str]
    """Names of the single indices; of one loop it is the group's own."""
    sizes: list[str]
    """Names under which the sizes of the loops enter the kernel."""
    total: str
    """Name of the number of elements of the whole group."""
    constant: bool = False
    """Whether sizes are compile-time constants even for a single loop."""
    apart: bool = False
    """Whether the single indices stand for themselves and the index over all of them must not be used."""

    @property
    def count(self) -> int:
        return math.prod(loop.size for loop in self.loops)


@dataclass
class IndexSpace:
    writer: KernelWriter
    shape: Shape
    views: list[View]
    """All operands, over `shape`; sizes are read off them."""
    groups: list[AxisGroup]
    needed: set[tuple[int, int]] = field(default_factory=set)
    texts: dict[int, str] = field(default_factory=dict)
    """Sizes of single axes as Python, where the plan says them itself."""
    lookups: dict[View, Lookup] = field(default_factory=dict)
    """Operands that functions of the kernel library address by shapes."""

    # Sizes

    def size(self, group: int, loop: int) -> str:
        """The kernel's name for the size of a loop."""
        owner = self.groups[group]
        single = len(owner.loops) == 1
        if single and not owner.constant:
            return self.writer.parameter(f"size {owner.total}", owner.total, self.text(owner.loops[0].axes), "size")
        name = owner.total if single else owner.sizes[loop]
        return self.writer.parameter(f"size {name}", name, self.text(owner.loops[loop].axes), "constant")

    def total(self, group: int) -> str:
        owner = self.groups[group]
        if len(owner.loops) == 1:
            return self.size(group, 0)
        return self.writer.parameter(f"size {owner.total}", owner.total, self.total_text(group), "size")

    def total_text(self, group: int) -> str:
        axes = tuple(axis for loop in self.groups[group].loops for axis in loop.axes)
        return self.text(axes)

    def text(self, axes: Sequence[int]) -> str:
        """Python text for the number of elements along `axes`."""
        axes = [axis for axis in axes if self.shape[axis] > 1]
        if axes and all(axis in self.texts for axis in axes):
            return " * ".join(_factor(self.texts[axis], len(axes) > 1) for axis in axes)
        size = math.prod(self.shape[axis] for axis in axes)
        plan = self.writer.file.plan
        ranked = sorted(self.views, key=lambda view: plan.buffers[view.buffer].kind not in ("input", "result"))
        for view in ranked:
            buffer = plan.buffers[view.buffer]
            if buffer.size == size and len(axes) > 1 and not buffer.name.startswith("self."):
                return f"{buffer.name}.numel()"
        texts = [self.axis(axis, ranked) for axis in axes]
        if any(text is None for text in texts):
            for view in ranked:  # dimensions that are read together may be one dimension of the buffer
                buffer = plan.buffers[view.buffer]
                full = buffer.steps
                for dim, (extent, stride) in enumerate(zip(buffer.shape, full)):
                    if axes and extent == size and stride == view.strides[axes[-1]]:
                        return axis_text(buffer, dim)
        if len(axes) > 2 or any(text is None for text in texts):
            others = [axis for axis in range(len(self.shape)) if axis not in axes and self.shape[axis] > 1]
            rest = [self.axis(axis, ranked) for axis in others]
            for view in ranked:
                buffer = plan.buffers[view.buffer]
                if buffer.size == math.prod(self.shape) and None not in rest and not buffer.name.startswith("self."):
                    divisor = " * ".join(text for text in rest if text)
                    if len(rest) == 1 and divisor:
                        return f"{buffer.name}.numel() // {divisor}"
        known = [text if text is not None else str(self.shape[axis]) for axis, text in zip(axes, texts)]
        return " * ".join(known) or "1"

    def axis(self, axis: int, ranked: list[View]) -> str | None:
        if axis in self.texts:
            return self.texts[axis]
        plan = self.writer.file.plan
        for view in ranked:
            buffer = plan.buffers[view.buffer]
            for dim, (size, stride) in enumerate(zip(buffer.shape, buffer.steps)):
                if size == self.shape[axis] and stride == view.strides[axis]:
                    text = axis_text(buffer, dim)
                    if not text.isdigit():
                        return text
        return None

    # Addresses

    def address(self, view: View, written: bool = False) -> str:
        pointer = self.writer.pointer(view.buffer, written)
        offset = self.offset(view)
        if written and self.groups[-1].count == 1 and len(self.groups) - 1 not in self.depends(view):
            offset = f"{offset} + {self.groups[-1].index}" if offset else self.groups[-1].index  # a single place: index 0
        return f"{pointer} + {offset}" if offset else pointer

    def called(self, view: View) -> str:
        """The call graph's name for a slice of a tensor that is looked up."""
        return part_name(self.lookups[view], view.buffer, self.writer.file.plan.cuts) if view in self.lookups else ""

    def offset(self, view: View, skip: frozenset[int] = frozenset()) -> str:
        """The sum of indices times strides. Indices that must be told apart are noted in `needed`."""
        if view in self.lookups:
            main = self.lookups[view].whole.main
            return self.lookups[view].text(self.groups[0].index if main is None else self.offset(main))
        terms: list[str] = []
        for number, group in enumerate(self.groups):
            if number in skip:
                continue
            strides = strides_along(group.loops, view)
            if not any(stride and loop.size > 1 for stride, loop in zip(strides, group.loops)):
                continue
            sizes = tuple(loop.size for loop in group.loops)
            step = strides[-1]
            if not group.apart and strides == tuple(step * stride for stride in contiguous_strides(sizes)):
                terms.append(times(group.index, self.stride(view, number, len(sizes) - 1, step)))
                continue
            for loop, stride in enumerate(strides):
                if stride and sizes[loop] > 1:
                    self.needed.add((number, loop))
                    terms.append(times(group.indices[loop], self.stride(view, number, loop, stride)))
        if view.offset >= INT32:  # as a product of sizes it would be computed in 32 bits
            terms.append(str(view.offset))
        elif view.offset:
            terms.append(self.stride(view, len(self.groups) - 1, 0, view.offset) or "1")
        return " + ".join(terms)

    def stride(self, view: View, group: int, loop: int, stride: int) -> str:
        """A stride as text: a product of sizes where it is one, else an argument; empty for 1."""
        if stride == 1:
            return ""
        flat = [(g, i) for g, owner in enumerate(self.groups) for i in range(len(owner.loops))]
        value = {place: self.groups[place[0]].loops[place[1]].size for place in flat}
        flat = [place for place in flat if value[place] > 1]
        inner = [place for place in flat if place > (group, loop)]
        choices: list[tuple[tuple[int, int], ...]] = [tuple(place for place in inner if place[0] == group), tuple(inner)]
        others = [place for place in reversed(flat) if place != (group, loop)]
        own = [place for place in others if strides_along(self.groups[place[0]].loops, view)[place[1]]]
        for places in (own, others):  # sizes of loops that the view walks itself come first
            for length in range(1, 5):
                choices += itertools.combinations(places, length)
        for most in (1, 8):
            for chosen in choices:
                size = math.prod(value[place] for place in chosen)
                if chosen and stride % size == 0 and 1 <= stride // size <= most:
                    names = self.names_of(chosen)
                    return " * ".join([str(stride // size), *names] if stride != size else names)
        plan = self.writer.file.plan
        buffer = plan.buffers[view.buffer]
        base = self.writer.short.get(buffer.name, buffer.name)
        for dim, full in enumerate(buffer.steps):
            if (
                full <= stride
                and stride % full == 0
                and (full > 1 or stride < 64)
                and stride // full < max(buffer.shape[dim], 2)
            ):
                times_text = f"{stride // full} * " if stride != full else ""
                text = f"{times_text}{buffer.name}.stride({dim})" if full > 1 else str(stride)
                if full == 1:
                    return text
                return self.writer.parameter(f"stride {text}", f"{base}_stride{dim}", text, "size")
        return str(stride)

    def names_of(self, places: Sequence[tuple[int, int]]) -> list[str]:
        """Sizes as names, a whole group under its own name."""
        names: list[str] = []
        for number, group in enumerate(self.groups):
            inside = [loop for g, loop in places if g == number]
            if not group.apart and len(inside) > 1 and len(inside) == len([loop for loop in group.loops if loop.size > 1]):
                names.append(self.total(number))
            else:
                names += [self.size(number, loop) for loop in inside]
        return names

    def touch(self, operands: Sequence[View], bodies: Sequence[Expression]) -> None:
        """Finds out which indices must be told apart, before any line is written."""
        for view in operands:
            self.offset(view)
        for body in bodies:
            for node in walk(body):
                if isinstance(node, Index):
                    self.index_of(node.axis)

    def define(self, group: int) -> None:
        """Writes the lines that take a group's index apart, as far as operands need it."""
        owner = self.groups[group]
        if len(owner.loops) == 1:
            return
        for loop in range(len(owner.loops)):
            if (group, loop) in self.needed:
                inner = [self.size(group, later) for later in range(loop + 1, len(owner.loops))]
                text = owner.index
                if inner:
                    text += f" // {inner[0]}" if len(inner) == 1 else f" // ({' * '.join(inner)})"
                if loop:
                    text += f" % {self.size(group, loop)}"
                self.writer.line(f"{owner.indices[loop]} = {text}")

    def index_of(self, axis: int, divisor: int = 0) -> str:
        """The name of the index along one axis of the unmerged space; with a divisor, of any that has the same remainder. Triton sees that
        neighbours are read together by the index over all loops, and not by the remainder of a remainder."""
        for number, group in enumerate(self.groups):
            for place, loop in enumerate(group.loops):
                if loop.axes == (axis,):
                    last = loop is group.loops[-1] and not group.apart
                    if len(group.loops) == 1 or (divisor and last and loop.size % divisor == 0):
                        return group.index
                    self.needed.add((number, place))
                    return group.indices[place]
        return "0"

    def depends(self, view: View) -> frozenset[int]:
        """The groups along which the view moves, or the index by which it is looked up."""
        if view in self.lookups:
            main = self.lookups[view].whole.main
            return frozenset((0,)) if main is None else self.depends(main)
        moving = {axis for axis, stride in enumerate(view.strides) if stride and self.shape[axis] > 1}
        axes = [{axis for loop in group.loops for axis in loop.axes} for group in self.groups]
        return frozenset(number for number, own in enumerate(axes) if own & moving)


def _factor(text: str, wrapped: bool) -> str:
    return f"({text})" if wrapped and ("//" in text or "+" in text or "-" in text) else text


def times(index: str, stride: str) -> str:
    return f"{index} * {stride}" if stride else index


def numbered_names(writer: KernelWriter, count: int, base: str, upper: str, mark: str = "") -> tuple[list[str], list[str]]:
    """Index and size names for the single loops of a group of several."""
    if count == 1:
        return [base], [upper]
    if count == 2:
        indices, sizes = ["i", "j"], ["I", "J"]
    elif count == 3:
        indices, sizes = ["b", "c", "p"], ["B", "C", "HW"]
    else:
        indices, sizes = [f"i{n}" for n in range(count)], [f"N{n}" for n in range(count)]
    return [writer.fresh(name) for name in indices], [name + mark for name in sizes]
