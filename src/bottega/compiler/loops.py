"""Loops that every operand walks in step are one loop: what is left is what a kernel must really tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.compiler.view import Shape, View


@dataclass(frozen=True)
class Loop:
    size: int
    axes: tuple[int, ...]
    """The dimensions of the original space that it runs over."""


def merge(shape: Shape, operands: Sequence[View], barriers: Sequence[int] = ()) -> list[Loop]:
    """The fewest loops over `shape` such that every operand has one stride along each; single dimensions vanish.

    A loop never reaches over a barrier: an axis in `barriers` starts a new loop.
    """
    loops: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        joinable = bool(loops) and not any(loops[-1][-1] < barrier <= axis for barrier in barriers)
        if joinable and all(view.strides[loops[-1][-1]] == view.strides[axis] * size for view in operands):
            loops[-1].append(axis)
        else:
            loops.append([axis])
    return [Loop(math.prod(shape[axis] for axis in axes), tuple(axes)) for axes in loops] or [Loop(1, ())]


def strides_along(loops: Sequence[Loop], view: View) -> tuple[int, ...]:
    """The stride of a view along each merged loop: that of its last dimension."""
    return tuple(view.strides[loop.axes[-1]] if loop.axes else 0 for loop in loops)
