"""An entry of the catalogue: how an operator is written, and which values it takes and gives. Shapes and costs are found by running it.

A form is a template. `{x}`, `{y}`, `{z}` are operands, `{@bias}` an attribute of the module, `{=mean}` a variable of its own, `{dim}` a
parameter, and `{, stride=1}` an argument that may be left out when the parameter has that value. Several lines are several statements; the last
is the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bottega.tasks.synth.value import Shape, Size, Table, Value

if TYPE_CHECKING:
    from bottega.tasks.synth.draw import Draw

ANY = ("vector", "rows", "matrix", "sequence", "ncl", "nchw", "ncdhw", "heads", "other")
BATCHED = ("rows", "sequence", "ncl", "nchw", "ncdhw", "heads", "matrix")
IMAGES = ("ncl", "nchw", "ncdhw")
FLOATS = ("float32", "float16", "bfloat16")
OPERANDS = ("x", "y", "z", "w")

FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Form:
    call: str
    attributes: tuple[tuple[str, str], ...] = ()
    """Hint for the name, and the template that makes it in the constructor."""

    @property
    def kind(self) -> str:
        last = self.call.strip().splitlines()[-1].strip()
        if self.is_module:
            return "module"
        for prefix, kind in (("F.", "functional"), ("torch.", "torch"), ("{x}.", "method")):
            if last.startswith(prefix):
                return kind
        return "expression"

    @property
    def is_module(self) -> bool:
        """Whether it is one module called on one operand, so that it may stand in a `nn.Sequential`."""
        return (
            len(self.attributes) == 1
            and self.attributes[0][1].startswith("nn.")
            and self.call == f"{{@{self.attributes[0][0]}}}({{x}})"
        )

    def uses(self, operand: str) -> int:
        return sum(text == operand for text in FIELD.findall(self.call))

    @property
    def lines(self) -> list[str]:
        return [line for line in self.call.strip().splitlines() if line.strip()]


def forms(text: str, attribute: str = "layer") -> tuple[Form, ...]:
    """`nn.ReLU() | F.relu({x})`: a module is made once and called, all else stands in `forward`."""
    return tuple(form(part.strip(), attribute=attribute) for part in text.split(" | "))


def form(call: str, *attributes: tuple[str, str], attribute: str = "layer") -> Form:
    if re.match(r"nn\.[A-Z]", call) and not attributes:
        return Form(f"{{@{attribute}}}({{x}})", ((attribute, call),))
    lines = [line.rstrip() for line in call.strip().splitlines()]
    return Form("\n".join(lines), attributes)


@dataclass(frozen=True)
class OperatorUse:
    """One use of an operator while it is being drawn."""

    draw: Draw
    x: Value
    others: tuple[Value, ...] = ()
    p: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.x.shape

    @property
    def table(self) -> Table:
        return self.x.typical

    @property
    def rank(self) -> int:
        return len(self.x.shape)


@dataclass(frozen=True)
class Operand:
    """A further input, drawn to suit the first."""

    name: str
    shape: Callable[[OperatorUse], Shape]
    contents: str = "normal"
    """A name of `contents.CONTENTS`."""
    limit: Callable[[OperatorUse], int] | None = None
    """For integers: what they stay below."""


def operand(name: str, lengths: str, contents: str = "normal", limit: Callable[[OperatorUse], int] | None = None) -> Operand:
    """Lengths as `Draw.lengths` reads them: those that the other inputs have already are theirs."""

    def shape(s: OperatorUse) -> Shape:
        known = {one.name: one for value in (s.x, *s.others) for one in value.shape if isinstance(one, Size)}
        return s.draw.lengths(lengths, known)

    return Operand(name, shape, contents, limit)


def first(lengths: str) -> Callable[[Draw], Shape]:
    return lambda draw: draw.lengths(lengths, {})


Choice = tuple[Any, ...] | Callable[[OperatorUse], Any]


def _always(s: OperatorUse) -> bool:
    return True


def unchanged(s: OperatorUse) -> Table:
    return s.table


@dataclass(frozen=True)
class Operator:
    name: str
    family: str
    forms: tuple[Form, ...]
    layouts: tuple[str, ...] = ANY
    parameters: Mapping[str, Choice] = field(default_factory=dict)
    others: tuple[Operand, ...] = ()
    when: Callable[[OperatorUse], bool] = _always
    """Whether these parameters and this shape make sense together; what torch refuses need not be said."""
    law: Callable[[OperatorUse], Table] | None = None
    """Typical contents of the result; without one those of the operand, on which an operator of every element's own is run."""
    layout: str = ""
    """Of the result, where it follows neither from its dimensions nor from the operand's."""
    takes: str = "any"
    gives: str = ""
    """A sign, or `same`; without one, what the text makes of all values of the operand's sign."""
    makes: frozenset[str] = frozenset()
    keeps: bool = False
    """Whether the marks of its operand stay."""
    refuses: frozenset[str] = frozenset()
    dtypes: tuple[str, ...] = FLOATS
    first: Callable[[Draw], Shape] | None = None
    """The shape of its first input where the layout's usual one does not serve."""
    contents: str | None = None
    """What an input directly in front of it must hold, where its sign does not say it all."""
    roles: frozenset[str] = frozenset({"alone", "tail"})
    """`alone` as a task of its own, `head` in front of others, `tail` behind them."""
    often: float = 1.0
    literal: frozenset[str] = frozenset()
    """Parameters that are part of the text and never a constructor's argument."""
    cancels_bias: bool = False
    """A per-channel constant added in front of it leaves no trace."""

    @property
    def label(self) -> str:
        """In a comment or docstring."""
        return self.name.replace("_", " ")


def roles(text: str) -> frozenset[str]:
    return frozenset(text.split())
