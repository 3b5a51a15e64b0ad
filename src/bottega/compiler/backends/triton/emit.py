"""Expressions as Triton text: one table of functions, names for what is used twice, and no line too long to read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bottega.compiler.backends.triton.kernel_writer import SKETCHED, KernelWriter
from bottega.compiler.call_names import DIGITS
from bottega.compiler.expression import (
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
from bottega.compiler.build_step import Refusal

COMPARE, OR, AND, ADD, MUL, UNARY, ATOM = range(1, 8)
LONGEST = 66
"""Text of an inner expression beyond this gets a name and a line of its own."""
NARROW = ("float16", "bfloat16", "half")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")

TRITON = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid", "floor", "ceil", "abs"}
LIBDEVICE = {
    "expm1": "expm1", "log1p": "log1p", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "round": "rint", "trunc": "trunc",
    "fmod": "fmod", "atan2": "atan2", "pow": "pow",
}  # fmt: skip
OPERATORS = {
    "add": ("+", ADD), "sub": ("-", ADD), "mul": ("*", MUL), "div": ("/", MUL), "lt": ("<", COMPARE), "le": ("<=", COMPARE),
    "gt": (">", COMPARE), "ge": (">=", COMPARE), "eq": ("==", COMPARE), "ne": ("!=", COMPARE), "and": ("&", AND), "or": ("|", OR),
}  # fmt: skip
BOOLEAN = {"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan"}

OF_MATHEMATICS = frozenset(
    (math.sqrt(0.5), math.sqrt(2 / math.pi), math.pi, 1 / math.log(10), 1.0507009873554805, 1.6732632423543772)
)
"""Which have all their digits in every answer."""


@dataclass
class TritonEmitter:
    writer: KernelWriter
    load: Callable[[Load | Gather, str], str]
    """Writes a load, given the text of a computed index; returns the value's text."""
    index: Callable[[int], str]
    kinds: dict[str, str] = field(default_factory=dict)
    """What named values are: float, int or bool. A float where nothing is said."""
    names: dict[str, str] = field(default_factory=dict)
    """The kernel's variable for each `Name`."""
    known: dict[Expression, str] = field(default_factory=dict)
    sizes: dict[int, str] = field(default_factory=dict)
    """Numbers that stand for sizes: dividing by one of them is written with its name."""
    uses: Counter[Expression] = field(default_factory=Counter)

    def inner(self) -> TritonEmitter:
        """For the body of a loop: what is known stays known, what is learnt inside is forgotten after it."""
        return TritonEmitter(
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

    def kind(self, node: Expression) -> str:
        """float, int or bool."""
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
        if node.function in BOOLEAN:
            return "bool"
        inside = [self.kind(argument) for argument in (node.arguments[1:] if node.function == "where" else node.arguments)]
        if node.function in ("div", "pow") or node.function in TRITON - {"abs", "floor", "ceil"} or node.function in LIBDEVICE:
            return "float" if node.function not in ("fmod", "round", "trunc") else most(inside)
        return most(inside)

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
            return f"{wrap(inner, level, ATOM)}.to(tl.{node.dtype}).to(tl.float32)", ATOM
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

    def apply(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        function, arguments = node.function, node.arguments
        if function == "pow":
            special = self.power(node, uses)
            if special:
                return special
        if function == "div" and isinstance(arguments[1], Constant) and self.count(arguments[1]):
            left, level = self.floating(arguments[0], uses)
            return f"{wrap(left, level, MUL)} / {self.count(arguments[1])}", MUL
        if function in OPERATORS:
            return self.infix(node, uses)
        if function in TRITON:
            if function in ("abs", "floor", "ceil") and self.kind(arguments[0]) != "float":
                return (
                    (f"tl.abs({self.text(arguments[0], uses)[0]})", ATOM)
                    if function == "abs"
                    else self.text(arguments[0], uses)
                )
            return f"tl.{function}({self.floating(arguments[0], uses)[0]})", ATOM
        if function in LIBDEVICE:
            self.writer.file.imports.add("from triton.language.extra import libdevice")
            inside = [self.floating(argument, uses)[0] for argument in arguments]
            if len(arguments) == 2:  # libdevice wants tensors of one type, not numbers
                inside = [self.tensor(argument, text, arguments) for argument, text in zip(arguments, inside)]
            return f"libdevice.{LIBDEVICE[function]}({', '.join(inside)})", ATOM
        return self.spelled(node, uses)

    def count(self, divisor: Constant) -> str:
        """The name of a size that a divisor stands for, or one less."""
        for size, name in self.sizes.items():
            if divisor.value == size:
                return name
            if divisor.value == size - 1 and size > 2:
                return f"({name} - 1)"
        return ""

    def tensor(self, argument: Expression, text: str, all_arguments: tuple[Expression, ...]) -> str:
        if not isinstance(argument, Constant):
            return text
        other = next((a for a in all_arguments if not isinstance(a, Constant)), None)
        if other is None:
            raise Refusal("a function of two numbers alone")
        like = self.named(other)
        return f"tl.full({like}.shape, {text}, tl.float32)"

    def infix(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        sign, level = OPERATORS[node.function]
        (a, la), (b, lb) = (self.text(argument, uses) for argument in node.arguments)
        kinds = [self.kind(argument) for argument in node.arguments]
        if node.function == "div" and "float" not in kinds and not isinstance(node.arguments[1], Constant):
            a, la = f"{wrap(a, la, ATOM)}.to(tl.float32)", ATOM
        if node.function in ("add", "sub", "mul") and kinds[0] == kinds[1] == "bool":
            a, la = f"{wrap(a, la, ATOM)}.to(tl.int32)", ATOM
        if node.function in ("and", "or"):
            a, la = (a, la) if kinds[0] == "bool" else (f"({a} != 0)", ATOM)
            b, lb = (b, lb) if kinds[1] == "bool" else (f"({b} != 0)", ATOM)
        if node.function == "mul" and b.startswith("-") and lb == UNARY:
            lb = MUL
        right = level + 1 if node.function in ("sub", "div") or level == COMPARE else level
        if node.function in ("add", "mul") and isinstance(node.arguments[1], Apply):
            right = level + 1 if node.arguments[1].function in ("sub", "div") else level
        return f"{wrap(a, la, level if level != COMPARE else level + 1)} {sign} {wrap(b, lb, right)}", level

    def power(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int] | None:
        base, exponent = node.arguments
        if not isinstance(exponent, Constant) or exponent.text:
            return None
        if exponent.value in (2, 3, 4):
            name = self.named(base)
            return " * ".join([name] * int(exponent.value)), MUL
        inner, level = self.floating(base, uses)
        if exponent.value == 0.5:
            return f"tl.sqrt({inner})", ATOM
        if exponent.value == -0.5:
            return f"tl.rsqrt({inner})", ATOM
        if exponent.value == 1:
            return inner, level
        if exponent.value == -1:
            return f"1.0 / {wrap(inner, level, MUL + 1)}", MUL
        return None

    def spelled(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        """Functions that Triton has no word for, or whose word drops NaN."""
        function, arguments = node.function, node.arguments
        if function == "where":
            texts = [self.text(argument, uses)[0] for argument in arguments]
            condition = texts[0] if self.kind(arguments[0]) == "bool" else f"{texts[0]} != 0"
            return f"tl.where({condition}, {texts[1]}, {texts[2]})", ATOM
        if function in ("maximum", "minimum"):
            return self.extreme(node, uses)
        if function == "neg":
            inner, level = self.text(arguments[0], uses)
            return f"-{wrap(inner, level, UNARY)}", UNARY
        if function == "not":
            inner, level = self.text(arguments[0], uses)
            return (
                (f"~{wrap(inner, level, ATOM)}", UNARY)
                if self.kind(arguments[0]) == "bool"
                else (f"{wrap(inner, level, ADD)} == 0", COMPARE)
            )
        if function == "reciprocal":
            inner, level = self.floating(arguments[0], uses)
            return f"1.0 / {wrap(inner, level, MUL + 1)}", MUL
        name = self.named(arguments[0])
        zero = "0.0" if self.kind(arguments[0]) == "float" else "0"
        if function == "square":
            return f"{name} * {name}", MUL
        if function == "relu":
            return f"tl.where({name} < 0, {zero}, {name})", ATOM
        if function == "isnan":
            return f"{name} != {name}", COMPARE
        if function == "sign":
            one = "1.0" if zero == "0.0" else "1"
            return f"tl.where({name} > 0, {one}, tl.where({name} < 0, -{one}, {name}))", ATOM
        if function in ("remainder", "floor_divide"):
            return self.remainder(node, uses)
        raise Refusal(f"no way to write {function} in Triton")

    def extreme(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        """Against a number by comparison, which passes NaN on; two tensors by tl.maximum with propagate_nan."""
        left, right = node.arguments
        if isinstance(left, Constant):
            left, right = right, left
        if isinstance(right, Constant):
            name, bound = self.named(left), self.constant(right)[0]
            if self.kind(left) == "float" and isinstance(right.value, int) and not right.text:
                bound = number(float(right.value))
            sign = "<" if node.function == "maximum" else ">"
            return f"tl.where({name} {sign} {bound}, {bound}, {name})", ATOM
        texts = [self.text(argument, uses)[0] for argument in (left, right)]
        keep = ", propagate_nan=tl.PropagateNan.ALL" if self.kind(node) == "float" else ""
        return f"tl.{node.function}({texts[0]}, {texts[1]}{keep})", ATOM

    def remainder(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        left, right = self.named(node.arguments[0]), self.text(node.arguments[1], uses)
        divisor = wrap(right[0], right[1], ATOM)
        if self.kind(node) == "float":
            if node.function == "floor_divide":
                return f"tl.floor({left} / {divisor})", ATOM
            return f"{left} - tl.floor({left} / {divisor}) * {divisor}", ADD
        if isinstance(node.arguments[0], Index) and isinstance(node.arguments[1], Constant):  # neither is negative
            return f"{left} {'%' if node.function == 'remainder' else '//'} {divisor}", MUL
        rest = self.writer.numbered()
        self.writer.line(f"{rest} = {left} % {divisor}")  # the sign of the dividend, as in C
        off = f"({rest} != 0) & (({rest} < 0) != ({divisor} < 0))"
        if node.function == "remainder":
            return f"tl.where({off}, {rest} + {divisor}, {rest})", ATOM
        return f"tl.where({off}, {left} // {divisor} - 1, {left} // {divisor})", ATOM


def kind_of(dtype: str) -> str:
    return "bool" if dtype == "bool" else "int" if dtype in INTEGERS else "float"


def most(kinds: Iterable[str]) -> str:
    found = set(kinds)
    return "float" if "float" in found else "int" if "int" in found else "bool"


def wrap(text: str, level: int, wanted: int) -> str:
    return f"({text})" if level < wanted else text


def rounded_as_printed(value: float | int | bool) -> float | int | bool:
    """With the digits that the call graph prints, from which a model copies it."""
    short = float(f"{value:.{DIGITS}g}") if isinstance(value, float) and math.isfinite(value) else value
    return value if value in OF_MATHEMATICS else short


def number(value: float | int | bool) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else '-float("inf")'
    return repr(value)


def computed(dtype: str) -> str:
    """The type in which values of a dtype are added up."""
    return (
        "float64"
        if dtype == "float64"
        else "float32"
        if kind_of(dtype) == "float"
        else "int64"
        if dtype == "int64"
        else "int32"
    )


def loaded(text: str, dtype: str) -> str:
    """A load's text with the conversion that narrow floats need."""
    return f"{text}.to(tl.float32)" if dtype in NARROW else text
