"""Operands of another shape than a kernel's space, addressed by functions of the kernel library: by shapes that the call graph shows, and
not by divisions that must be worked out for every combination of shapes.

    bias = tl.load(bias_ptr + index_in((20, 1, 1, 1), (8, 20, 13, 35, 35), offsets), mask=mask)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bottega.compiler.expression import Apply, Cast, Expression, Gather, Load, children, walk
from bottega.compiler.view import Buffer, Shape, View, contiguous_strides


@dataclass(frozen=True)
class Whole:
    """A tensor whose elements a kernel runs over, as the call graph shows it."""

    shape: Shape
    axes: Shape
    """For each dimension of more than one entry, the axis of the kernel's space along which it lies."""
    main: View | None = None
    """Whose address is the index of its elements; none where the index of the kernel's first group of loops is."""

    def axis_of(self) -> Iterator[tuple[int, int]]:
        """Dimensions of more than one entry, with their axes."""
        yield from zip((dim for dim, size in enumerate(self.shape) if size > 1), self.axes)


@dataclass(frozen=True)
class Lookup:
    whole: Whole
    call: str
    """Up to the index."""
    start: tuple[int, int] | None = None
    """Of a part along one dimension, that and where it begins."""
    deep: int = 1
    """Calls in each other: a part along two dimensions is a part of a part."""

    def text(self, index: str) -> str:
        return f"{self.call}, {index}{')' * self.deep}"


def whole_of(shape: Shape, sizes: Sequence[int]) -> Whole | None:
    """Where the sizes along a kernel's first axes are the shape's own, single ones aside."""
    axes = tuple(axis for axis, size in enumerate(sizes) if size > 1)
    same = [size for size in shape if size > 1] == [size for size in sizes if size > 1]
    return Whole(shape, axes) if same else None


def whole_behind(shape: Shape, main: View, buffer: Buffer) -> Whole | None:
    """Where a dense operand has this very shape, however its dimensions lie in the kernel's space."""
    if main.offset or [size for size in buffer.shape if size > 1] != [size for size in shape if size > 1]:
        return None
    steps = [step for step, size in zip(contiguous_strides(buffer.shape), buffer.shape) if size > 1]
    places = {stride: axis for axis, (stride, size) in enumerate(zip(main.strides, main.shape)) if size > 1}
    if len(places) != len(steps) or set(places) != set(steps):
        return None
    return Whole(shape, tuple(places[step] for step in steps), main)


def lookup(view: View, buffer: Buffer, whole: Whole) -> Lookup | None:
    """None where the view is neither the buffer broadcast to the whole nor a part of it."""
    strides = {axis: stride for axis, (stride, size) in enumerate(zip(view.strides, view.shape)) if size > 1}
    for found, expected, offset in (*_broadcast(buffer.shape, whole), *_part(buffer.shape, whole, view.offset)):
        placed = {axis: expected[dim] for dim, axis in whole.axis_of()}
        if offset == view.offset and strides == {axis: placed.get(axis, 0) for axis in strides}:
            return found
    return None


def _broadcast(operand: Shape, whole: Whole) -> Iterator[tuple[Lookup, Shape, int]]:
    missing = len(whole.shape) - len(operand)
    if missing < 0:
        return
    padded = (1,) * missing + operand
    if all(own in (1, size) for own, size in zip(padded, whole.shape)):
        steps = contiguous_strides(padded)
        expected = tuple(0 if own == 1 else step for own, step in zip(padded, steps))
        yield Lookup(whole, f"index_in({_tuple(operand)}, {_tuple(whole.shape)}"), expected, 0


def _part(buffer: Shape, whole: Whole, offset: int) -> Iterator[tuple[Lookup, Shape, int]]:
    shorter = [dim for dim, (all_of_it, size) in enumerate(zip(buffer, whole.shape)) if all_of_it != size]
    if len(buffer) != len(whole.shape) or not shorter or any(buffer[dim] < whole.shape[dim] for dim in shorter):
        return
    steps = contiguous_strides(buffer)
    calls, left, outer = [], offset, buffer
    for dim in shorter:
        start, left = divmod(left, steps[dim])
        if start + whole.shape[dim] > buffer[dim]:
            return
        inner = (*outer[:dim], whole.shape[dim], *outer[dim + 1 :])
        calls.append(f"index_in_part({_tuple(outer)}, {dim}, {start}, {_tuple(inner)}")
        outer = inner
    only = (shorter[0], offset // steps[shorter[0]]) if len(shorter) == 1 else None
    yield Lookup(whole, ", ".join(calls), only, len(calls)), steps, offset - left


def _tuple(shape: Shape) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def wanted_by(bodies: Sequence[Expression], shapes: Mapping[str, Shape]) -> dict[View, list[Shape]]:
    """By loaded view, the shapes of the results that are made of it: of the call graph's calls that have it as an operand, and where such a call
    has nothing but it (`lt(mask, 0)`), of the call that has the result of that."""
    found: dict[View, list[Shape]] = {}
    seen: set[tuple[int, tuple[Shape, ...]]] = set()

    def visit(node: Expression, above: tuple[Shape, ...]) -> None:
        if (id(node), above) in seen:
            return
        seen.add((id(node), above))
        if isinstance(node, Apply | Cast) and node.title in shapes and shapes[node.title] not in above[:1]:
            above = (shapes[node.title], *above)
        if isinstance(node, Load) and above:
            wanting = found.setdefault(node.view, [])
            alone = math.prod(above[0]) == _elements(node.view)
            wanting += [shape for shape in above[: 1 + alone] if shape not in wanting]
        for child in children(node):
            visit(child, above)

    for body in bodies:
        visit(body, ())
    computed = {node.view for body in bodies for node in walk(body) if isinstance(node, Gather)}
    return {view: wanting for view, wanting in found.items() if view not in computed}


def _elements(view: View) -> int:
    """How many different ones it shows."""
    return math.prod(size for stride, size in zip(view.strides, view.shape) if stride)


def part_name(hit: Lookup, source: str, lines: Iterable[tuple[tuple[str, ...], str, Shape]]) -> str:
    """The call graph's name for a slice of `source`; empty where none of its calls makes just this one."""
    if hit.start is None:
        return ""
    dim, start = hit.start
    size = hit.whole.shape[dim]
    cuts = [names for names, call, shape in lines if f"({source}," in call and shape == hit.whole.shape]
    several = [names for names in cuts if len(names) > 1]
    if len(several) == 1 and start % size == 0 and start // size < len(several[0]):
        return several[0][start // size]
    return cuts[0][0] if len(cuts) == 1 and len(cuts[0]) == 1 else ""


def is_single(view: View) -> bool:
    """One number for the whole space."""
    return not any(stride for stride, size in zip(view.strides, view.shape) if size > 1)


def is_flat(view: View) -> bool:
    """In the space's own order, without gaps."""
    return view.offset == 0 and view.contiguous and math.prod(view.shape) > 1
