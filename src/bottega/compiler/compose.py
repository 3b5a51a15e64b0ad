"""Looking through one view at another: what a kernel needs to read the operands of a result instead of the result itself."""

from __future__ import annotations

import math

import torch

from bottega.compiler.view import Shape, View, contiguous_strides


def compose(inner: View, shape: Shape, outer: View) -> View | None:
    """`inner` runs over `shape`; `outer` is a look at a contiguous buffer of that shape. The look at `inner`'s buffer, or None.

    None where no single stride does it, as for a flattened look at a transposed operand.
    """
    places = _places(shape, outer)
    if places is None:
        return None
    start, walks = places
    strides: list[int] = []
    for size, walk in zip(outer.shape, walks):
        steps = {inner.strides[axis] * step for axis, step in walk if len(walk) == 1}
        if len(walk) > 1:
            inside = [inner.strides[axis] for axis, _ in walk]
            sizes = [shape[axis] for axis, _ in walk]
            if any(inside[i] != inside[i + 1] * sizes[i + 1] for i in range(len(walk) - 1)):
                return None
            steps = {inside[-1]}
        strides.append(steps.pop() if steps and size > 1 else 0)
    offset = inner.offset + sum(index * stride for index, stride in zip(start, inner.strides))
    return View(inner.buffer, outer.shape, tuple(strides), offset)


def places_along(shape: Shape, outer: View) -> list[list[int]] | None:
    """For each dimension of a look at a contiguous buffer, the axes of its shape that it walks along."""
    found = _places(shape, outer)
    return None if found is None else [[axis for axis, _ in walk] for walk in found[1]]


def _places(shape: Shape, outer: View) -> tuple[list[int], list[list[tuple[int, int]]]] | None:
    """Where `outer` starts in `shape`, and for each of its dimensions the axes of `shape` it walks along, with the step."""
    full = contiguous_strides(shape)
    start, rest = [], outer.offset
    for stride in full:
        start.append(rest // stride)
        rest -= start[-1] * stride
    reach = list(start)
    walks: list[list[tuple[int, int]]] = []
    for size, stride in zip(outer.shape, outer.strides):
        walk = _walk(size, stride, shape, full)
        if walk is None:
            return None
        for axis, step in walk:
            reach[axis] += step * ((size if len(walk) == 1 else shape[axis]) - 1)
        walks.append(walk)
    return (start, walks) if all(index < max(size, 1) for index, size in zip(reach, shape)) else None


def _walk(size: int, stride: int, shape: Shape, full: Shape) -> list[tuple[int, int]] | None:
    if stride == 0 or size == 1:
        return []
    for axis in range(len(shape)):
        if full[axis] <= stride and stride % full[axis] == 0 and (stride // full[axis]) * (size - 1) < shape[axis]:
            return [(axis, stride // full[axis])]
    for last in range(len(shape)):
        if full[last] == stride and shape[last] > 1:
            for first in range(last, -1, -1):
                if math.prod(shape[first : last + 1]) == size:
                    return [(axis, 1) for axis in range(first, last + 1) if shape[axis] > 1]
    return None


def reshaped(view: View, shape: Shape) -> View | None:
    """The same elements under another shape, or None where that needs a copy."""
    try:
        seen = torch.empty_strided(view.shape, view.strides, device="meta").view(shape)
    except RuntimeError:
        return None
    return View(view.buffer, shape, tuple(seen.stride()), view.offset)


def permuted(view: View, order: tuple[int, ...]) -> View:
    axes = tuple(view.axes[axis] for axis in order) if view.axes else ()
    return View(
        view.buffer,
        tuple(view.shape[axis] for axis in order),
        tuple(view.strides[axis] for axis in order),
        view.offset,
        view.text,
        axes,
    )


def whole_order(view: View, shape: Shape) -> tuple[int, ...] | None:
    """For a view that is a whole buffer of `shape` with its dimensions in another order: that order. None for any other view."""
    if view.offset or sorted(view.shape) != sorted(shape):
        return None
    full = contiguous_strides(shape)
    order: list[int] = []
    for size, stride in zip(view.shape, view.strides):
        axis = next(
            (a for a in range(len(shape)) if a not in order and shape[a] == size and (size == 1 or full[a] == stride)), None
        )
        if axis is None:
            return None
        order.append(axis)
    return tuple(order)
