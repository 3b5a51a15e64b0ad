"""Sizes as people write them: read off a tensor that exists at that point, or, where it was fused away, by the formula it had.

While a module is lowered nobody knows yet which results will exist, so texts hold a mark for `the size of this result along this
axis`. When the plan stands, marks are resolved, kernel by kernel.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from bottega.compiler.bodies import made
from bottega.compiler.kernel import Kernel
from bottega.compiler.plan import Plan
from bottega.compiler.view import Buffer, View

_MARK = re.compile("⟦([^⟧]+)⟧")
_ATOM = re.compile(r"[\w.\[\]]+")
Part = TypeVar("Part")


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


def resolved(plan: Plan) -> Plan:
    """The plan without marks."""
    existing = {name for name, buffer in plan.buffers.items() if buffer.kind != "result"}
    buffers = dict(plan.buffers)
    known = {name: dataclasses.replace(buffer, axes=()) for name, buffer in buffers.items()} if plan.literal else plan.buffers
    kernels: list[Kernel] = []
    for kernel in plan.kernels:
        for name in made(kernel):
            old = buffers[name]
            axes = () if plan.literal else tuple(_outside(_text(axis, buffers, existing)) for axis in old.axes)
            buffers[name] = dataclasses.replace(old, axes=axes)
        kernels.append(_walked(kernel, known, existing))
        existing |= set(made(kernel))
    everything = existing | set(plan.buffers)
    return dataclasses.replace(plan, buffers=buffers, kernels=tuple(kernels), returns=_text(plan.returns, buffers, everything))


def _text(text: str, buffers: dict[str, Buffer], existing: set[str]) -> str:
    def told(match: re.Match[str]) -> str:
        name, _, axis = match.group(1).rpartition("@")
        if name in existing:
            return f"{name}.shape[{axis}]"
        buffer = buffers.get(name)
        if buffer is None or not buffer.axes:
            return str(buffer.shape[int(axis)]) if buffer else "?"
        return wrapped(_text(buffer.axes[int(axis)], buffers, existing))

    return _MARK.sub(told, text)


def _outside(text: str) -> str:
    """Without brackets around the whole."""
    if text.startswith("(") and text.endswith(")"):
        depth = 0
        for place, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and place < len(text) - 1:
                return text
        return text[1:-1]
    return text


def _walked(part: Part, buffers: dict[str, Buffer], existing: set[str]) -> Part:
    """Any noun of a plan with the marks in its texts resolved."""
    made: Any = part
    if isinstance(part, str):
        made = _text(part, buffers, existing) if "⟦" in part else part
    elif isinstance(part, tuple):
        made = tuple(_walked(item, buffers, existing) for item in part)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        changed = {field.name: _walked(getattr(part, field.name), buffers, existing) for field in dataclasses.fields(part)}
        made = dataclasses.replace(part, **changed)  # type: ignore[type-var]
    return made  # type: ignore[no-any-return]
