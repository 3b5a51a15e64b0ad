"""A workload: what a task's calls compute, on what sizes and on which device. A card's typed conditions are checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bottega.core.device import DeviceFacts

PRODUCT, CONVOLUTION, ATTENTION, POOLING, SCAN, ROW, ELEMENTWISE, OTHER = (
    "product", "convolution", "attention", "pooling", "scan", "row", "elementwise", "other",
)  # fmt: skip
KINDS = (PRODUCT, CONVOLUTION, ATTENTION, POOLING, SCAN, ROW, ELEMENTWISE, OTHER)
"""What an operation's kernel walks over; `row` is a reduction, a softmax or a norm along an axis."""
SIZES = ("rows", "columns", "depth", "batch", "channels", "elements", "bytes")
LAST_AXIS, OTHER_AXIS = "last axis", "other axis"
LAYOUTS = (LAST_AXIS, OTHER_AXIS)


@dataclass(frozen=True)
class Operation:
    """One call."""

    operator: str
    """torch's name for it: `linear`, `softmax`."""
    kind: str
    dtype: str
    sizes: Mapping[str, int]
    """By names of `SIZES`, those that are known."""
    layout: str = ""
    """Of operations along an axis: whether a row's elements are neighbours."""


@dataclass(frozen=True)
class Workload:
    operations: tuple[Operation, ...]
    """Empty where the task has no call graph: then no condition on operations holds."""
    device: DeviceFacts | None = None
    """None where no device is known: then no condition on devices is checked."""
