"""A module while it is composed: inputs and operators as a graph, each with the value that comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bottega.tasks.synth.contents import CONTENTS
from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.operator import Operand, Operator, OperatorUse
from bottega.tasks.synth.value import Value, fault

TRIES = 5
POINTWISE = ("activations", "elementwise")
"""Families of which a typical value that stays the same means that nothing was done: ReLU of what is positive."""
_ACCEPTED = {
    "any": {"any", "nonnegative", "positive", "unit"},
    "nonnegative": {"nonnegative", "positive", "unit"},
    "positive": {"positive"},
    "unit": {"unit"},
}
_LIMITS = ("num_embeddings", "num_classes")
"""Parameters that bound the integers of an operator's first input."""


NOTHING = OperatorCost(0.0, launches=0)


@dataclass
class OperatorNode:
    value: Value
    operator: Operator | None = None
    """None for an input."""
    operands: tuple[int, ...] = ()
    p: dict[str, Any] = field(default_factory=dict)
    work: OperatorCost = NOTHING
    name: str = ""
    contents: str = ""
    limit: int | None = None


class OperatorGraph:
    def __init__(self, draw: Draw):
        self.draw = draw
        self.nodes: list[OperatorNode] = []
        self.structure = "chain"

    @property
    def operators(self) -> list[OperatorNode]:
        return [node for node in self.nodes if node.operator is not None]

    @property
    def milliseconds(self) -> float:
        target = self.draw.target
        return sum(target.milliseconds(node.work, self.draw.dtype) for node in self.operators)

    @property
    def bytes(self) -> float:
        return float(sum(node.value.bytes for node in self.nodes))

    def begin(self, operator: Operator) -> int:
        """The first input of `operator`, as it likes it."""
        draw = self.draw
        layout = draw.pick(operator.layouts) if operator.layouts[0] != "tokens" else "rows"
        layout = "nchw" if layout == "other" else layout
        value, kind = draw.input(layout, operator.takes, operator.contents)
        if operator.first is not None:
            value = replace(value, shape=operator.first(draw))
        dtype = CONTENTS[kind].dtype or draw.dtype
        return self._input("x", replace(value, layout=operator.layouts[0] if operator.first else layout, dtype=dtype), kind)

    def extra(self, shape: tuple[int, ...], layout: str, name: str = "y") -> int:
        value, kind = self.draw.input("rows", "any")
        return self._input(name, replace(value, shape=shape, layout=layout), kind)

    def _input(self, name: str, value: Value, contents: str, limit: int | None = None) -> int:
        self.nodes.append(OperatorNode(value, name=name, contents=contents, limit=limit))
        return len(self.nodes) - 1

    def apply(
        self,
        operator: Operator,
        x: int,
        others: tuple[int, ...] = (),
        fixed: dict[str, Any] | None = None,
        *,
        alone: bool = False,
    ) -> int | None:
        """The node that `operator` makes of `x`, or None when it does not fit or would make a poor value."""
        value = self.nodes[x].value
        if value.dtype not in (*operator.dtypes, "int64") or value.layout not in operator.layouts:
            return None
        if value.sign not in _ACCEPTED[operator.takes] or value.marks & operator.refuses:
            return None
        for _ in range(TRIES):
            kept = len(self.nodes)
            found = self._once(operator, x, others, fixed or {}, alone)
            if found is not None:
                return found
            del self.nodes[kept:]
        return None

    def _once(self, operator: Operator, x: int, others: tuple[int, ...], fixed: dict[str, Any], alone: bool) -> int | None:
        value = self.nodes[x].value
        s = OperatorUse(self.draw, value, tuple(self.nodes[other].value for other in others), {})
        late = self._settle(operator.parameters, s, fixed)
        operands = [x, *others]
        for wanted in operator.others[len(others) :]:
            drawn = self._other(wanted, s)
            if drawn is None:
                return None
            operands.append(drawn)
            s = replace(s, others=tuple(self.nodes[other].value for other in operands[1:]))
        self._settle(late, s, fixed)
        shape = operator.shape(s)
        if shape is None or any(length < 1 for length in shape):
            return None
        out = self._result(operator, s, shape)
        unchanged = out.shape == value.shape and np.allclose(out.typical, value.typical, atol=1e-7)
        if fault(out) or (unchanged and (not alone or operator.family in POINTWISE)):
            return None
        if self.nodes[x].contents in ("integers", "small_integers"):
            self.nodes[x].limit = next(int(s.p[name]) for name in _LIMITS if name in s.p)
        work = operator.work(s, out) if operator.work else self._plain_work(operator, s, out)
        self.nodes.append(OperatorNode(out, operator, tuple(operands), s.p, work))
        return len(self.nodes) - 1

    def _settle(self, parameters: Any, s: OperatorUse, fixed: dict[str, Any]) -> dict[str, Any]:
        """Draw parameters into `s.p`; those that ask for operands which are not there yet are given back."""
        late: dict[str, Any] = {}
        for name, choice in parameters.items():
            if name in fixed:
                s.p[name] = fixed[name]
                continue
            try:
                s.p[name] = choice(s) if callable(choice) else self.draw.pick(choice)
            except IndexError:
                late[name] = choice
        return late

    def _other(self, wanted: Operand, s: OperatorUse) -> int | None:
        found = CONTENTS[wanted.contents]
        shape = wanted.shape(s)
        if any(length < 1 for length in shape):
            return None
        limit = int(wanted.limit(s)) if wanted.limit else None
        value = Value(shape, s.x.layout, found.table(self.draw.rng), found.dtype or self.draw.dtype, found.sign, found.marks)
        return self._input(wanted.name, value, wanted.contents, limit)

    def _result(self, operator: Operator, s: OperatorUse, shape: tuple[int, ...]) -> Value:
        layout = operator.layout(s) if callable(operator.layout) else operator.layout
        if layout is None:
            layout = s.x.layout if len(shape) == s.rank else "other"
        sign = s.x.sign if operator.gives == "same" else operator.gives
        if operator.family == "pooling" and sign == "positive":
            sign = "nonnegative"
        marks = operator.makes | (s.x.marks if operator.keeps else frozenset())
        return Value(shape, layout, operator.law(s), operator.result or s.x.dtype, sign, marks)

    @staticmethod
    def _plain_work(operator: Operator, s: OperatorUse, out: Value) -> OperatorCost:
        moved = s.x.bytes + out.bytes + sum(other.bytes for other in s.others)
        return OperatorCost(moved, operator.weight * max(s.x.numel, out.numel))
