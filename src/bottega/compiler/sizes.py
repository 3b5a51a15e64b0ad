"""Sizes as people write them: read off a tensor that exists at that point, or as a number, where it was fused away.

While a module is lowered nobody knows yet which results will exist, so texts hold a mark for `the size of this result along this
axis`. When the plan stands, marks are resolved, kernel by kernel.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from bottega.compiler.bodies import made
from bottega.compiler.expression import Constant
from bottega.compiler.kernel import Kernel
from bottega.compiler.plan import KernelPlan
from bottega.compiler.view import Buffer, View

_MARK = re.compile("⟦([^⟧]+)⟧")
_ATOM = re.compile(r"[\w.\[\]]+")
PlanItem = TypeVar("PlanItem")


def mark(buffer: str, axis: int) -> str:
    return f"⟦{buffer}@{axis}⟧"


def marked(buffer: Buffer) -> View:
    """The whole of a result, its sizes by marks."""
    view = buffer.whole()
    axes = tuple("1" if size == 1 else mark(buffer.name, axis) for axis, size in enumerate(buffer.shape))
    return dataclasses.replace(view, axes=axes)


def wrapped(text: str) -> str:
    """In brackets, unless it is a single name or number."""
    return text if _ATOM.fullmatch(text) else f"({text})"


def resolved(plan: KernelPlan) -> KernelPlan:
    """The plan without marks."""
    existing = {name for name, buffer in plan.buffers.items() if buffer.kind != "result"}
    kernels: list[Kernel] = []
    for kernel in plan.kernels:
        kernels.append(_resolve(kernel, plan.buffers, existing))
        existing |= set(made(kernel))
    everything = existing | set(plan.buffers)
    changed = tuple((name, _text(text, plan.buffers, everything)) for name, text in plan.changed)
    returns = _text(plan.returns, plan.buffers, everything)
    return dataclasses.replace(plan, kernels=tuple(kernels), returns=returns, changed=changed)


def _text(text: str, buffers: dict[str, Buffer], existing: set[str]) -> str:
    def resolve(match: re.Match[str]) -> str:
        name, _, axis = match.group(1).rpartition("@")
        return f"{name}.shape[{axis}]" if name in existing else str(buffers[name].shape[int(axis)])

    return _MARK.sub(resolve, text)


def _resolve(item: PlanItem, buffers: dict[str, Buffer], existing: set[str]) -> PlanItem:
    """Any object of a plan with the marks in its texts resolved."""
    made: Any = item
    if isinstance(item, str):
        made = _text(item, buffers, existing) if "⟦" in item else item
    elif isinstance(item, tuple):
        made = tuple(_resolve(each, buffers, existing) for each in item)
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        changed = {field.name: _resolve(getattr(item, field.name), buffers, existing) for field in dataclasses.fields(item)}
        if isinstance(item, Constant) and not re.search("[a-z]", changed["text"]):
            changed["text"] = ""  # of nothing that exists: the number itself
        made = dataclasses.replace(item, **changed)  # type: ignore[type-var]
    return made  # type: ignore[no-any-return]
