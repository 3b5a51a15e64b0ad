"""The typed conditions of a lineage card: where its step was measured, and not much further.

The rule: of each task on which the step was right, the operation that most of the work is in. The card applies to operations of these kinds and
data types, on the same architecture, that move from an eighth of the least to eight times the most bytes. Nothing is said of what was not tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bottega.core.device import DeviceFacts
from bottega.core.skill import AppliesTo
from bottega.core.workload import (
    ATTENTION,
    CONVOLUTION,
    ELEMENTWISE,
    OTHER,
    POOLING,
    PRODUCT,
    ROW,
    SCAN,
    Operation,
    Workload,
)

FURTHER = 8
HEAVIEST_FIRST = (ATTENTION, CONVOLUTION, PRODUCT, SCAN, POOLING, ROW, OTHER, ELEMENTWISE)


def main_operation(workload: Workload) -> Operation | None:
    """Of the heaviest kind that there is, the one that moves most; None without a call graph."""
    return min(
        workload.operations,
        key=lambda one: (HEAVIEST_FIRST.index(one.kind), -one.sizes.get("bytes", 0)),
        default=None,
    )


def measured_conditions(workloads: Sequence[Workload], timed: bool = True) -> AppliesTo:
    """Of the tasks on which a step was right. A task whose calls are not known says nothing of operations. What was not timed (Triton in its
    interpreter) says nothing of devices and sizes: it was run where the card does not apply, with inputs that fit there."""
    devices = [architecture(one.device) for one in workloads if one.device is not None and timed]
    found = [operation for one in workloads if (operation := main_operation(one)) is not None]
    moved = [operation.sizes["bytes"] for operation in found]
    return AppliesTo(
        devices=_once(name for name in devices if name),
        dtypes=_once(operation.dtype for operation in found),
        kinds=_once(operation.kind for operation in found),
        sizes={"bytes": (min(moved) // FURTHER, max(moved) * FURTHER)} if found and timed else {},
    )


def architecture(device: DeviceFacts) -> str:
    """`sm_90`, `aarch64`: the class of device that a finding holds for."""
    return device.arch.partition(" ")[0]


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
