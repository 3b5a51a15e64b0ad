"""Expressions as Triton text: names for what is used twice, and no line too long to read. What a function is called is for `emit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from bottega.compiler.backends.triton.kernel_writer import SKETCHED, KernelWriter
from bottega.compiler.backends.triton.spelling import (
    ADD,
    ATOM,
    COMPARE,
    EIGHT_BITS,
    NARROW,
    SHORT,
    UNARY,
    kind_of,
    most,
    number,
    rounded_as_printed,
    wrap,
)
from bottega.compiler.expression import (
    TRUTHS,
    Apply,
    Cast,
    Constant,
    Expression,
    Gather,
    Index,
    Load,
    Name,
    children,
    walk,
)

LONGEST = 66
"""Text of an inner expression beyond this gets a name and a line of its own."""
FLOATING = frozenset(
    (
        *(
            "exp",
            "exp2",
            "log",
            "log2",
            "sqrt",
            "rsqrt",
            "sin",
            "cos",
            "erf",
            "sigmoid",
            "expm1",
            "log1p",
            "tan",
            "asin",
            "acos",
        ),
        *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "pow", "div"),
    )
)
"""Functions whose result is a float whatever they take."""


@dataclass
class ExpressionEmitter(ABC):
    writer: KernelWriter
    load: Callable[[Load | Gather, str], str]
    """Writes a load, given the text of a computed index; returns the value's text."""
    index: Callable[..., str]
    """The name of the index along an axis; with a divisor, of one with the same remainder."""
    kinds: dict[str, str] = field(default_factory=dict)
    """What named values are: float, int or bool. A float where nothing is said."""
    names: dict[str, str] = field(default_factory=dict)
    """The kernel's variable for each `Name`."""
    known: dict[Expression, str] = field(default_factory=dict)
    sizes: dict[int, str] = field(default_factory=dict)
    """Numbers that stand for sizes: dividing by one of them is written with its name."""
    uses: Counter[Expression] = field(default_factory=Counter)

    def inner(self) -> Self:
        """For the body of a loop: what is known stays known, what is learnt inside is forgotten after it."""
        return type(self)(
            self.writer, self.load, self.index, self.kinds, self.names, dict(self.known), self.sizes, Counter(self.uses)
        )

    def write(self, roots: Iterable[Expression], room: int = 78) -> list[str]:
        """The texts of some expressions, after the lines that they need."""
        roots = list(roots)
        if any(root not in self.uses for root in roots):
            self.survey(roots)
        steps = {node: self.step(node) for root in roots for node in walk(root) if isinstance(node, Apply | Cast)}
        for node in sorted((node for node in steps if steps[node] >= 0), key=lambda node: steps[node]):
            self.text(node, self.uses, room)
        return [self.text(root, self.uses, room)[0] for root in roots]

    def step(self, node: Apply | Cast) -> int:
        """The place of a result in the call graph, since lines are written in that order; -1 where it is none."""
        found = SKETCHED.match(node.title)
        return int(found[1]) if found else -1

    def survey(self, roots: Iterable[Expression]) -> None:
        """Counts how often everything is used in what will be written, so that it gets a name where that is more than once."""
        roots = list(roots)
        self.uses.update(roots)
        for node in dict.fromkeys(node for root in roots for node in walk(root)):
            self.uses.update(children(node))

    def named(self, expression: Expression, name: str = "") -> str:
        """The expression as a variable."""
        text = self.write([expression])[0]
        if text.isidentifier():
            return text
        variable = self.writer.fresh(name) if name else self.writer.numbered()
        self.writer.line(f"{variable} = {text}")
        self.known[expression] = variable
        return variable

    def text(self, node: Expression, uses: Counter[Expression], room: int = LONGEST) -> tuple[str, int]:
        if node in self.known:
            return self.known[node], ATOM
        if isinstance(node, Constant):
            return self.constant(node)
        if isinstance(node, Name):
            return self.names.get(node.name, node.name), ATOM
        if isinstance(node, Index):
            return self.index(node.axis), ATOM
        if isinstance(node, Load | Gather):
            position = self.text(node.index, uses)[0] if isinstance(node, Gather) else ""
            self.known[node] = self.load(node, position)
            return self.known[node], ATOM
        text, level = self.cast(node, uses) if isinstance(node, Cast) else self.apply(node, uses)
        if self.step(node) >= 0 and not text.isidentifier():
            variable = self.writer.again(node, node.title)
            self.writer.line(f"{variable} = {text}")
            self.known[node] = variable
            return variable, ATOM
        if (level < ATOM or "(" in text) and (uses[node] > 1 or len(text) > room):
            variable = self.writer.numbered()
            self.writer.line(f"{variable} = {text}")
            self.known[node] = variable
            return variable, ATOM
        return text, level

    def constant(self, node: Constant) -> tuple[str, int]:
        if node.text and not isinstance(node.value, bool):
            return self.writer.scalar(node.text), ATOM
        value = rounded_as_printed(node.value)
        return number(value), ATOM if value is True or value is False or value >= 0 else UNARY

    def kind(self, node: Expression, told: dict[Expression, str] | None = None) -> str:
        """float, int or bool. `told`: of the parts that were looked at on the way."""
        if isinstance(node, Load | Gather):
            return kind_of(node.dtype)
        if isinstance(node, Constant):
            return "bool" if isinstance(node.value, bool) else "int" if isinstance(node.value, int) else "float"
        if isinstance(node, Index):
            return "int"
        if isinstance(node, Name):
            return self.kinds.get(node.name, "float")
        if isinstance(node, Cast):
            return kind_of(node.dtype)
        if node.function in TRUTHS:
            return "bool"
        if node.function in FLOATING:
            return "float"
        told = {} if told is None else told
        if node not in told:
            arguments = node.arguments[1:] if node.function == "where" else node.arguments
            told[node] = most([self.kind(argument, told) for argument in arguments])
        return told[node]

    def cast(self, node: Cast, uses: Counter[Expression]) -> tuple[str, int]:
        inner, level = self.text(node.argument, uses)
        kind, target = self.kind(node.argument), kind_of(node.dtype)
        if node.dtype == "bool":
            return (inner, level) if kind == "bool" else (f"{wrap(inner, level, ADD)} != 0", COMPARE)
        if isinstance(node.argument, Constant) and not node.argument.text:
            value = float(node.argument.value) if target == "float" else int(node.argument.value)
            return self.constant(Constant(value))
        if isinstance(node.argument, Load) and node.argument.dtype == node.dtype:
            return inner, level
        if node.dtype in NARROW:
            return f"{wrap(inner, level, ATOM)}.to(tl.{EIGHT_BITS.get(node.dtype, node.dtype)}).to(tl.float32)", ATOM
        if node.dtype in SHORT:
            return f"{wrap(inner, level, ATOM)}.to(tl.{node.dtype}).to(tl.int32)", ATOM
        if kind == "float" and node.dtype == "float32" and not self.double(node.argument):
            return inner, level
        return f"{wrap(inner, level, ATOM)}.to(tl.{node.dtype})", ATOM

    def double(self, node: Expression) -> bool:
        return any(isinstance(inner, Load | Gather | Cast) and inner.dtype == "float64" for inner in walk(node))

    def floating(self, node: Expression, uses: Counter[Expression]) -> tuple[str, int]:
        """An operand of a function that takes floats alone."""
        text, level = self.text(node, uses)
        if self.kind(node) == "float" or isinstance(node, Constant):
            return text, level
        return f"{wrap(text, level, ATOM)}.to(tl.float32)", ATOM

    @abstractmethod
    def apply(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        """The text of a function's result, and how tightly it binds."""
