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
        kernels.append(_Resolver(plan.buffers, existing).of(kernel))
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


class _Resolver:
    """Of one kernel: what it holds in several places is looked at once, else an expression that uses its parts twice takes for ever."""

    def __init__(self, buffers: dict[str, Buffer], existing: set[str]) -> None:
        self._buffers, self._existing = buffers, existing
        self._done: dict[int, Any] = {}

    def of(self, item: PlanItem) -> PlanItem:
        """Any object of a plan with the marks in its texts resolved; itself where there are none."""
        if isinstance(item, str):
            return _text(item, self._buffers, self._existing) if "⟦" in item else item  # type: ignore[return-value]
        if isinstance(item, type) or not (isinstance(item, tuple) or dataclasses.is_dataclass(item)):
            return item
        if id(item) not in self._done:
            self._done[id(item)] = self._made(item)
        return self._done[id(item)]  # type: ignore[no-any-return]

    def _made(self, item: Any) -> Any:
        if isinstance(item, tuple):
            items = tuple(self.of(each) for each in item)
            return item if all(one is other for one, other in zip(items, item)) else items
        fields = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        changed = {name: self.of(value) for name, value in fields.items()}
        if isinstance(item, Constant) and not re.search("[a-z]", changed["text"]):
            changed["text"] = ""  # of nothing that exists: the number itself
        return item if all(changed[name] is fields[name] for name in fields) else dataclasses.replace(item, **changed)
