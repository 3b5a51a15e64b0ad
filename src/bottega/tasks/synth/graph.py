"""A module while it is composed: inputs and operators as a graph, each with the value that comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bottega.tasks.synth.contents import CONTENTS
from bottega.tasks.synth.costs import OperatorCost
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.measure import contents, measured, pointwise_costs, probe, sign_of
from bottega.tasks.synth.operator import Operand, Operator, OperatorUse
from bottega.tasks.synth.value import Shape, Size, Value, fault

TRIES = 5
FEW_STEPS = 4
POINTWISE = ("activations", "elementwise")
"""Families of which a typical value that stays the same means that nothing was done: ReLU of what is positive."""
_ACCEPTED = {
    "any": {"any", "nonnegative", "positive", "unit"},
    "nonnegative": {"nonnegative", "positive", "unit"},
    "positive": {"positive"},
    "unit": {"unit"},
}
LAYOUTS = {0: "scalar", 1: "vector", 2: "rows", 3: "sequence"}
"""Of a result that has other dimensions than what it was made of."""
_LIMITS = ("num_embeddings", "num_classes")
"""Parameters that bound the integers of an operator's first input."""


@dataclass
class OperatorNode:
    value: Value
    operator: Operator | None = None
    """None for an input."""
    operands: tuple[int, ...] = ()
    p: dict[str, Any] = field(default_factory=dict)
    costs: tuple[OperatorCost, ...] = ()
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
        return sum(target.milliseconds(node.costs, self.draw.dtype) for node in self.operators)

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
            draw.names.clear()  # of lengths that nobody has
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
        if not operator.when(s):
            return None
        found = _measured(operator, s)
        if found is None or any(length < 1 for length in found[0]):
            return None
        shape, dtype, costs = found
        out = self._result(operator, s, _named(shape, s), dtype)
        unchanged = out.shape == value.shape and np.allclose(out.typical, value.typical, atol=1e-7)
        if fault(out) or (unchanged and (not alone or operator.family in POINTWISE)):
            return None
        if self.nodes[x].contents in ("integers", "small_integers"):
            self.nodes[x].limit = next(int(s.p[name]) for name in _LIMITS if name in s.p)
        self.nodes.append(OperatorNode(out, operator, tuple(operands), s.p, tuple(costs)))
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

    def _result(self, operator: Operator, s: OperatorUse, shape: Shape, dtype: str) -> Value:
        layout = operator.layout or (s.x.layout if len(shape) == s.rank else LAYOUTS.get(len(shape), "other"))
        marks = operator.makes | (s.x.marks if operator.keeps else frozenset())
        if operator.law is not None or operator.family not in POINTWISE:
            sign = s.x.sign if operator.gives == "same" else operator.gives or "any"
            if operator.family == "pooling" and sign == "positive":
                sign = "nonnegative"
            return Value(shape, layout, operator.law(s) if operator.law else s.table, dtype, sign, marks)
        form, seed = operator.forms[0], self.draw.rng.getrandbits(32)
        table = contents(form, s.p, [(one.typical, one.dtype) for one in (s.x, *s.others)], seed)
        if s.others:
            sign = "nonnegative" if table.min() >= 0 else "any"
        else:
            sign = sign_of(contents(form, s.p, [(probe(s.x.sign), s.x.dtype)], seed))
        return Value(shape, layout, table, dtype, sign, marks)


def _measured(operator: Operator, s: OperatorUse) -> tuple[Shape, str, list[OperatorCost]] | None:
    form, given = operator.forms[0], (s.x, *s.others)
    if operator.law is None and operator.family in POINTWISE:
        return s.shape, s.x.dtype, pointwise_costs(form, s.p, tuple(one.dtype for one in given), s.x.numel)
    steps = s.shape[1] // FEW_STEPS if any(line.startswith("for ") for line in form.lines) else 1
    shapes = [(one.shape if steps == 1 else (one.shape[0], FEW_STEPS, *one.shape[2:]), one.dtype) for one in given]
    found = measured(form, s.p, shapes)
    if found is None or steps == 1:
        return found
    shape, dtype, costs = found  # of a loop over a sequence a few steps tell the costs of all
    return (shape[0], *(s.shape[1] for _ in shape[2:]), shape[-1]), dtype, costs * steps


def _named(shape: Shape, s: OperatorUse) -> Shape:
    """Lengths that came from the operand or a parameter keep their names."""
    known = {int(one): one for one in s.p.values() if isinstance(one, Size)}
    same = len(shape) == s.rank
    return tuple(
        s.shape[place] if same and s.shape[place] == length else known.get(length, length) for place, length in enumerate(shape)
    )
