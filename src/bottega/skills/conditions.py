"""Whether a card's typed conditions hold for a workload. What cannot be known does not hold: such a card is not offered.

Conditions that can hold nowhere (a layout of products, an x86 processor for a GPU's kernel) are a mistake, and are refused with the card.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bottega.core.device import DeviceFacts
from bottega.core.skill import AppliesTo
from bottega.core.workload import (
    ALONG_AN_AXIS,
    CONVOLUTION,
    ELEMENTWISE,
    KINDS,
    OTHER,
    ROW,
    Operation,
    Workload,
    known_kind,
    known_sizes,
)

_GPU = re.compile(r"sm_\d+\w*|.*\b(nvidia|geforce|tesla)\b.*", re.I)
_CPU = re.compile(r"x86_64|aarch64|arm64|neon|asimd\w*|(avx|sse|sve|amx|fma)\w*|.*\b(xeon|epyc|ryzen|neoverse)\b.*", re.I)


def holds(conditions: AppliesTo, workload: Workload) -> bool:
    return _device_holds(conditions, workload) and _operation_holds(conditions, workload)


def conditions_here(workload: Workload) -> tuple[AppliesTo, ...]:
    """What a card could ask for that holds on this workload: of each operation its type, and its main size from half to four times as large."""
    devices = (workload.device.name,) if workload.device is not None else ()
    return tuple(dict.fromkeys(_asked_of(operation, devices) for operation in workload.operations))


def _asked_of(operation: Operation, devices: tuple[str, ...]) -> AppliesTo:
    by_kind = operation.kind in (ROW, ELEMENTWISE, OTHER)
    name = {CONVOLUTION: "channels", ELEMENTWISE: "elements", OTHER: "elements"}.get(operation.kind, "columns")
    size = operation.sizes.get(name, 0)
    return AppliesTo(
        devices=devices,
        dtypes=(operation.dtype,),
        operators=() if by_kind else (operation.operator,),
        kinds=(operation.kind,) if by_kind else (),
        layouts=(operation.layout,) if operation.kind == ROW and operation.layout else (),
        sizes={name: around(size)} if size else {},
    )


def around(size: int) -> tuple[int, int]:
    power = size.bit_length() - 1
    return 1 << max(0, power - 1), (1 << (power + 2)) - 1


def unmet(conditions: AppliesTo, workload: Workload) -> str:
    """Why they do not hold, in a few words; empty where they hold."""
    if workload.device is not None and not _device_holds(conditions, workload):
        return f"for {' or '.join(conditions.devices)}, and the device is {workload.device.name} ({workload.device.arch})"
    if not _operation_holds(conditions, workload):
        return f"no operation of the task is as it asks: {' '.join(conditions.told.values())}"
    return ""


def holds_nowhere(asked: AppliesTo, devices: Sequence[str]) -> str:
    """Why no workload on these kinds of device can meet them, in a few words; empty where one can."""
    if asked.devices and not any(_may_be(name, devices) for name in asked.devices):
        return f"{' or '.join(asked.devices)} is no {' or '.join(devices)}"
    named = [known_kind(name) or ELEMENTWISE for name in asked.operators]
    kinds = {*named, *asked.kinds} or {*KINDS}
    who = " or ".join((*asked.operators, *asked.kinds)) or "operation"
    if asked.layouts:
        kinds &= {*ALONG_AN_AXIS}
        if not kinds:
            return f"{who} goes along no axis, so that it has no layout"
    if not any({*asked.sizes} <= known_sizes(kind) for kind in kinds):
        return f"no {who} has {' and '.join(asked.sizes)}"
    return ""


def _may_be(name: str, devices: Sequence[str]) -> bool:
    """What is neither a GPU's name nor a processor's may be either."""
    return not (_GPU.fullmatch(name) and "cuda" not in devices) and not (_CPU.fullmatch(name) and "cpu" not in devices)


def _device_holds(asked: AppliesTo, workload: Workload) -> bool:
    device = workload.device
    return not asked.devices or device is None or any(_is_device(name, device) for name in asked.devices)


def _operation_holds(asked: AppliesTo, workload: Workload) -> bool:
    asks = asked.dtypes or asked.operators or asked.kinds or asked.layouts or asked.sizes
    return not asks or any(_holds(asked, operation) for operation in workload.operations)


def _holds(asked: AppliesTo, operation: Operation) -> bool:
    named = not (asked.operators or asked.kinds) or operation.operator in asked.operators or operation.kind in asked.kinds
    return (
        named
        and (not asked.dtypes or operation.dtype in asked.dtypes)
        and (not asked.layouts or operation.layout in asked.layouts)
        and all(low <= operation.sizes.get(size, -1) <= high for size, (low, high) in asked.sizes.items())
    )


def _is_device(name: str, device: DeviceFacts) -> bool:
    """An architecture's name, or words of the model's name in a row: `NVIDIA A100` is `NVIDIA A100-SXM4-80GB`, and `H20` is not `H200`."""
    if name.lower() in device.arch.lower().split():
        return True
    wanted, words = (re.findall(r"[a-z0-9]+", text.lower()) for text in (name, device.name))
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1)) if wanted else False
