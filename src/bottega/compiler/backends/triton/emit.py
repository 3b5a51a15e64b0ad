"""Functions as Triton text: one table of what Triton and libdevice call them, and the few that have no word there."""

from __future__ import annotations

from collections import Counter

from bottega.compiler.backends.triton.emit_values import ExpressionEmitter
from bottega.compiler.backends.triton.spelling import ADD, AND, ATOM, COMPARE, MUL, OR, UNARY, number, wrap
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Apply, Constant, Expression, Index

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

BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}


class TritonEmitter(ExpressionEmitter):
    def apply(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        function, arguments = node.function, node.arguments
        if function == "pow":
            special = self.power(node, uses)
            if special:
                return special
        if function == "div" and isinstance(arguments[1], Constant) and self.count(arguments[1]):
            left, level = self.floating(arguments[0], uses)
            return f"{wrap(left, level, MUL)} / {self.count(arguments[1])}", MUL
        if function in BITS:
            return self.bits(node, uses)
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
        if function == "one_plus_erf":
            self.writer.file.helpers.add(function)
            return f"{function}({self.floating(arguments[0], uses)[0]})", ATOM
        if function in LIBDEVICE and (function != "fmod" or self.kind(node) == "float"):
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

    def bits(self, node: Apply, uses: Counter[Expression]) -> tuple[str, int]:
        texts = [wrap(*self.text(argument, uses), ATOM) for argument in node.arguments]
        for place, argument in enumerate(node.arguments):
            if self.kind(argument) == "bool":
                texts[place] = f"{texts[place]}.to(tl.int32)"
        return f"({texts[0]} {BITS[node.function]} {texts[1]})", ATOM

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
            return f"tl.where({name} > 0, {one}, tl.where({name} < 0, -{one}, {zero}))", ATOM
        if function in ("remainder", "floor_divide"):
            return self.remainder(node, uses)
        if function == "fmod":
            return " % ".join(wrap(*self.text(argument, uses), MUL + 1) for argument in arguments), MUL
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
        value, by = node.arguments
        if node.function == "remainder" and isinstance(value, Index) and isinstance(by, Constant):  # neither is negative
            return f"{self.index(value.axis, int(by.value))} % {self.constant(by)[0]}", MUL
        left, right = self.named(value), self.text(by, uses)
        divisor = wrap(right[0], right[1], ATOM)
        if isinstance(value, Index) and isinstance(by, Constant):
            return f"{left} // {divisor}", MUL
        rest = self.named(Apply("fmod", (value, by)))  # the sign of the dividend, as in C
        off = f"({rest} != 0) & (({rest} < 0) != ({divisor} < 0))"
        if self.kind(node) == "float" and node.function == "floor_divide":
            quotient = self.writer.numbered()
            self.writer.line(f"{quotient} = ({left} - {rest}) / {divisor}")
            whole = f"tl.floor(tl.where({off}, {quotient} - 1.0, {quotient}) + 0.5)"
            return f"tl.where({divisor} == 0, {left} / {divisor}, {whole})", ATOM
        if node.function == "remainder":
            return f"tl.where({off}, {rest} + {divisor}, {rest})", ATOM
        return f"tl.where({off}, {left} // {divisor} - 1, {left} // {divisor})", ATOM
