"""Operators that compute every element for itself, each as an expression in the small vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bottega.compiler.expression import TRUTHS, Apply, Cast, Constant, Expression, Index, Load, apply
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.traced_graph import Ref

Unary = Callable[[Expression], Expression]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
SQRT_HALF, SQRT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def softplus(x: Expression, beta: Expression | float = 1.0, threshold: Expression | float = 20.0) -> Expression:
    scaled = x if beta == 1.0 else apply("mul", x, beta)
    # The stable form: it neither overflows for large nor loses small results.
    soft = apply("add", apply("maximum", scaled, 0.0), apply("log1p", apply("exp", apply("neg", apply("abs", scaled)))))
    small = soft if beta == 1.0 else apply("div", soft, beta)
    return apply("where", apply("gt", scaled, threshold), x, small)


def elu(x: Expression, alpha: Expression | float, scale: Expression | float, slope: Expression | float) -> Expression:
    inner = x if slope == 1.0 else apply("mul", x, slope)
    negative = apply("expm1", inner) if alpha == 1.0 else apply("mul", alpha, apply("expm1", inner))
    chosen = apply("where", apply("gt", x, 0.0), x, negative)
    return chosen if scale == 1.0 else apply("mul", scale, chosen)


def gelu(x: Expression, approximate: str) -> Expression:
    if approximate == "tanh":
        cubed = apply("mul", apply("mul", x, x), x)
        inner = apply("mul", SQRT_TWO_OVER_PI, apply("add", x, apply("mul", 0.044715, cubed)))
        return apply("mul", apply("mul", 0.5, x), apply("add", 1.0, apply("tanh", inner)))
    return apply("mul", apply("mul", 0.5, x), apply("add", 1.0, apply("erf", apply("mul", x, SQRT_HALF))))


def mish(x: Expression) -> Expression:
    """x · tanh(log(1 + exp x)) by one exponential and one division: with tanh and log1p it computes for longer than memory takes."""
    power = apply("exp", apply("minimum", x, 20.0))
    doubled = apply("mul", power, apply("add", power, 2.0))
    return apply("mul", x, apply("div", doubled, apply("add", doubled, 2.0)))


def clamp(x: Expression, low: Expression | None, high: Expression | None) -> Expression:
    x = x if low is None else apply("maximum", x, low)
    return x if high is None else apply("minimum", x, high)


SIMPLE = frozenset(
    (
        *("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "relu", "floor"),
        *("ceil", "round", "trunc", "sign", "square", "isnan"),
    )
)
PAIRS = {name: name for name in ("fmod", "remainder", "atan2", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne")} | {
    "mul": "mul",
    "logical_and": "and",
    "logical_or": "or",
}
BITS = {word: f"bitwise_{name}" for name in ("and", "or", "xor") for word in (f"bitwise_{name}", f"__{name}__")}
SHIFTS = {
    word: f"bitwise_{side}_shift" for side in ("left", "right") for word in (f"bitwise_{side}_shift", f"__{side[0]}shift__")
}
OF_TRUTHS = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"} | {
    name: {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "ne"}[function] for name, function in BITS.items()
}
"""Operators of two truth values whose result is one: torch adds no more than true to true."""
UNARY: dict[str, Unary] = {
    "silu": lambda x: apply("mul", x, apply("sigmoid", x)),
    "mish": mish,
    "relu6": lambda x: clamp(x, Constant(0.0), Constant(6.0)),
    "hardsigmoid": lambda x: apply("div", clamp(apply("add", x, 3.0), Constant(0.0), Constant(6.0)), 6.0),
    "hardswish": lambda x: apply("div", apply("mul", x, clamp(apply("add", x, 3.0), Constant(0.0), Constant(6.0))), 6.0),
    "selu": lambda x: elu(x, SELU_ALPHA, SELU_SCALE, 1.0),
    "log_sigmoid": lambda x: apply("neg", softplus(apply("neg", x))),
    "logical_not": lambda x: apply("not", x),
    "frac": lambda x: apply("sub", x, apply("trunc", x)),
    "softsign": lambda x: apply("div", x, apply("add", 1.0, apply("abs", x))),
    "erfc": lambda x: apply("sub", 1.0, apply("erf", x)),
    "sinc": lambda x: apply(
        "where",
        apply("eq", x, 0.0),
        1.0,
        apply("div", apply("sin", apply("mul", x, math.pi)), apply("mul", x, math.pi)),
    ),
    "sgn": lambda x: apply("sign", x),
    "log10": lambda x: apply("mul", apply("log", x), 1 / math.log(10)),
    "logit": lambda x: apply("log", apply("div", x, apply("sub", 1.0, x))),
}
ARGUED = frozenset(
    (
        *("add", "sub", "rsub", "div", "true_divide", "pow", "clamp", "clamp_min", "clamp_max", "leaky_relu", "elu", "celu"),
        "rrelu",
        *("gelu", "hardtanh", "softplus", "prelu", "softshrink", "hardshrink", "threshold", "where", "lerp", "addcmul"),
        *("addcdiv", "masked_fill", "tril", "triu", "floor_divide", "hypot", "logaddexp", "xlogy", "square_", "logical_xor"),
        *("_prelu_kernel", "heaviside", "bitwise_not", *BITS, *SHIFTS),
    )
)
MADE = frozenset(("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "arange", "scalar_tensor", "fill"))
SAME = frozenset(("clone", "contiguous", "detach", "alias", "dropout", "alpha_dropout", "feature_dropout", "lift_fresh_copy"))
CASTS = frozenset(("to", "_to_copy", "type_as", "convert_element_type"))

OPERATORS = {"copy"} | SIMPLE | set(PAIRS) | set(UNARY) | ARGUED | MADE | SAME | CASTS


def lower(scope: LoweringScope) -> LoweredTensor:
    """The current node, as a new tensor or, where nothing is computed, as the old one."""
    operator, shape, dtype = scope.node.operator, *scope.spec()
    if operator in SAME:
        part, drawn = scope.argument("p"), scope.argument("train")
        if "dropout" in operator and drawn and part > 0:
            raise scope.refuse("draws random numbers")
        return scope.operand("input" if "dropout" in operator else "self")
    if operator == "copy":
        source = scope.operand("src")
        same = (source.shape, source.dtype) == (shape, dtype)
        return source if same else scope.map(Cast(dtype, scope.load(scope.argument("src"), shape)), shape, dtype)
    if operator in CASTS:
        source = scope.operand("a" if operator == "convert_element_type" else "self")
        return source if source.dtype == dtype else scope.map(Cast(dtype, Load(source.view, source.dtype)), shape, dtype)
    body = _body(scope, operator)
    if not isinstance(body, Cast):
        body = _narrowed(body, scope, dtype)
    return scope.map(body, shape, dtype)


def _x(scope: LoweringScope) -> Expression:
    return scope.load(scope.argument("self"), scope.spec()[0])


def _narrowed(body: Expression, scope: LoweringScope, dtype: str) -> Expression:
    """Integers that become floats on the way are cast where they are loaded, because division and exponentials need it."""
    if "float" not in dtype or not isinstance(body, Apply):
        return body
    from bottega.compiler.expression import replace, walk

    swap: dict[Expression, Expression] = {}
    kept: set[Expression] = set()
    for node in walk(body):
        if isinstance(node, Apply) and node.function == "where":
            kept.add(node.arguments[0])
        if isinstance(node, Apply) and node.function in TRUTHS:
            kept.update(node.arguments)
    for node in walk(body):
        if isinstance(node, Load) and "float" not in node.dtype and node not in kept:
            swap[node] = Cast("float32", node)
    return replace(body, swap) if swap else body


def _body(scope: LoweringScope, operator: str) -> Expression:
    shape, _ = scope.spec()

    def get(name: str) -> Expression:
        return scope.load(scope.argument(name), shape)

    if operator in OF_TRUTHS and scope.spec()[1] == "bool":
        return apply(OF_TRUTHS[operator], _x(scope), get("other"))
    if operator in SIMPLE:
        return apply(operator, _x(scope))
    if operator in PAIRS:
        return apply(PAIRS[operator], _x(scope), get("other"))
    if operator in UNARY:
        if operator == "logit" and scope.argument("eps") is not None:
            raise scope.refuse("clamps its input")
        return UNARY[operator](_x(scope))
    if operator in MADE:
        return _made(scope, operator)
    return _argued(scope, operator, get)


def _argued(scope: LoweringScope, operator: str, get: Callable[[str], Expression]) -> Expression:
    if operator == "where":
        return apply("where", get("condition"), get("self"), get("other"))
    x = _x(scope)
    match operator:
        case "add" | "sub" | "rsub":
            alpha, first, second = scope.argument("alpha"), x, get("other")
            if operator == "rsub":
                first, second = second, first
            second = second if alpha in (None, 1) else apply("mul", scope.constant(alpha), second)
            return apply(operator.removeprefix("r"), first, second)
        case "div" | "true_divide":
            mode = scope.argument("rounding_mode")
            if mode == "floor":
                return apply("floor_divide", x, get("other"))
            if mode == "trunc" and "float" not in scope.spec()[1]:
                return apply("floor_divide", apply("sub", x, apply("fmod", x, get("other"))), get("other"))
            divided = apply("div", x, get("other"))
            return divided if mode is None else apply("trunc", divided)
        case "floor_divide":
            return apply("floor_divide", x, get("other"))
        case "pow":
            return _power(x, scope.argument("exponent"), get)
        case "clamp":
            low, high = (get(name) if scope.argument(name) is not None else None for name in ("min", "max"))
            return clamp(x, low, high)
        case "clamp_min":
            return apply("maximum", x, get("min"))
        case "clamp_max":
            return apply("minimum", x, get("max"))
        case "leaky_relu":
            return apply("where", apply("gt", x, 0.0), x, apply("mul", get("negative_slope"), x))
        case "rrelu":
            if scope.argument("training"):
                raise scope.refuse("draws random numbers")
            slope = (scope.argument("lower") + scope.argument("upper")) / 2
            return apply("where", apply("gt", x, 0.0), x, apply("mul", slope, x))
        case "elu":
            alpha, scale, slope = (scope.argument(name) for name in ("alpha", "scale", "input_scale"))
            return elu(
                x, 1.0 if alpha == 1 else get("alpha"), 1.0 if scale == 1 else get("scale"), 1.0 if slope == 1 else slope
            )
        case "celu":
            alpha = scope.argument("alpha")
            if alpha == 1:
                return elu(x, 1.0, 1.0, 1.0)
            return apply(
                "where", apply("gt", x, 0.0), x, apply("mul", get("alpha"), apply("expm1", apply("div", x, get("alpha"))))
            )
        case "gelu":
            return gelu(x, scope.argument("approximate"))
        case "hardtanh":
            return clamp(x, get("min_val"), get("max_val"))
        case "softplus":
            return softplus(x, 1.0 if scope.argument("beta") == 1 else get("beta"), float(scope.argument("threshold")))
        case "prelu" | "_prelu_kernel":
            return apply("where", apply("gt", x, 0.0), x, apply("mul", _slope(scope), x))
        case "softshrink":
            bound = get("lambd")
            nearer = apply("where", apply("gt", x, 0.0), apply("sub", x, bound), apply("add", x, bound))
            return apply("where", apply("le", apply("abs", x), bound), 0.0, nearer)
        case "hardshrink":
            return apply("where", apply("le", apply("abs", x), get("lambd")), 0.0, x)
        case "threshold":
            return apply("where", apply("le", x, get("threshold")), get("value"), x)
        case "lerp":
            return apply("add", x, apply("mul", get("weight"), apply("sub", get("end"), x)))
        case "addcmul" | "addcdiv":
            made = apply("mul" if operator == "addcmul" else "div", get("tensor1"), get("tensor2"))
            return apply("add", x, made if scope.argument("value") == 1 else apply("mul", get("value"), made))
        case "masked_fill":
            return apply("where", get("mask"), get("value"), x)
        case "tril" | "triu":
            rank = len(scope.spec()[0])
            distance = apply("sub", Index(rank - 1), Index(rank - 2))
            return apply("where", apply("le" if operator == "tril" else "ge", distance, scope.argument("diagonal")), x, 0)
        case "hypot":
            return apply("sqrt", apply("add", apply("mul", x, x), apply("mul", get("other"), get("other"))))
        case "logaddexp":
            y = get("other")
            apart = apply("where", apply("eq", x, y), 0.0, apply("sub", x, y))  # also of two infinities
            gap = apply("neg", apply("abs", apart))
            return apply("add", apply("maximum", x, y), apply("log1p", apply("exp", gap)))
        case "xlogy":
            return apply("where", apply("eq", x, 0.0), 0.0, apply("mul", x, apply("log", get("other"))))
        case "logical_xor":
            return apply("ne", apply("ne", x, 0), apply("ne", get("other"), 0))
        case "heaviside":
            return apply("where", apply("gt", x, 0.0), 1.0, apply("where", apply("eq", x, 0.0), get("values"), 0.0))
        case "bitwise_not":
            return apply("not", x) if scope.spec()[1] == "bool" else apply("sub", -1, x)
    if operator in BITS:
        return apply(BITS[operator], x, get("other"))
    if operator in SHIFTS:
        return _shifted(SHIFTS[operator], x, get("other"), scope.spec()[1])
    raise scope.refuse("is not understood")


def _shifted(function: str, x: Expression, by: Expression, dtype: str) -> Expression:
    """By fewer bits than the type has. Beyond, nothing is left, and of what is shifted right the sign."""
    bits = torch.iinfo(getattr(torch, dtype)).bits
    most = bits - (function == "bitwise_right_shift" and dtype != "uint8")
    far = apply(function, x, min(most, 63)) if function == "bitwise_right_shift" else Constant(0)
    if isinstance(by, Constant):
        return apply(function, x, by) if 0 <= by.value < most else far
    return apply("where", apply("or", apply("lt", by, 0), apply("ge", by, most)), far, apply(function, x, by))


def _power(x: Expression, exponent: object, get: Callable[[str], Expression]) -> Expression:
    """Small whole powers by multiplication, as torch does; others in general."""
    simple: dict[object, Unary] = {
        2: lambda x: apply("mul", x, x),
        3: lambda x: apply("mul", apply("mul", x, x), x),
        0.5: lambda x: apply("sqrt", x),
        -0.5: lambda x: apply("rsqrt", x),
        -1: lambda x: apply("reciprocal", x),
        1: lambda x: x,
    }
    if isinstance(exponent, int | float) and exponent in simple:
        return simple[exponent](x)
    return apply("pow", x, get("exponent"))


def _slope(scope: LoweringScope) -> Expression:
    """PReLU's slope: one for all, or one for each channel, along dimension 1."""
    shape, weight = scope.spec()[0], scope.operand("weight")
    if weight.view.shape and weight.shape[0] != 1 and len(weight.shape) == 1:
        strides = tuple(weight.view.strides[0] if axis == 1 else 0 for axis in range(len(shape)))
        from bottega.compiler.view import View

        return Load(View(weight.view.buffer, shape, strides, weight.view.offset, weight.view.text), weight.dtype)
    return scope.load(scope.argument("weight"), shape)


def _made(scope: LoweringScope, operator: str) -> Expression:
    if operator in ("zeros", "zeros_like"):
        return Constant(0)
    if operator in ("ones", "ones_like"):
        return Constant(1)
    if operator == "arange":
        start, step = scope.argument("start") or 0, scope.argument("step") or 1
        body: Expression = Index(0)
        body = body if step == 1 else apply("mul", body, step)
        return body if start == 0 else apply("add", body, start)
    value = (
        scope.argument("fill_value") if "full" in operator else scope.argument("s" if operator == "scalar_tensor" else "value")
    )
    if isinstance(value, Ref) or value is None:
        return scope.load(value, scope.spec()[0])
    return scope.constant(value)
