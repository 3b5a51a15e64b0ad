"""What masked lanes hold, and whether a reduction would notice: a select is written only where it would."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from bottega.compiler.backends.triton.spelling import INTEGERS, kind_of, number
from bottega.compiler.expression import Apply, Cast, Constant, Expression, Gather, Index, Load, walk
from bottega.compiler.kernel import Reduction

NEUTRAL = {
    "sum": 0.0,
    "prod": 1.0,
    "max": -math.inf,
    "min": math.inf,
    "argmax": -math.inf,
    "argmin": math.inf,
    "any": 0,
    "all": 1,
}
LEAST = {"int8": -128, "uint8": 0, "int16": -32768, "int32": -(2**31), "int64": -(2**63)}


def neutral_text(reduction: Reduction, kind: str, dtype: str) -> str:
    """The value that leaves a reduction as it is."""
    value = NEUTRAL[reduction.operation]
    if kind == "float":
        return number(float(value))
    if reduction.operation in ("max", "argmax"):
        return str(LEAST.get(dtype, -(2**31)))
    if reduction.operation in ("min", "argmin"):
        return str(-LEAST.get(dtype, -(2**31)) - 1)
    return str(int(value))


def at_masked(expression: Expression, other: Callable[[Load | Gather], float | None]) -> float | None:
    """The value of an expression in a masked lane; None where it is not known."""
    value = cache(lambda node: _at_masked(node, other, value))
    return value(expression)


def _at_masked(
    node: Expression, other: Callable[[Load | Gather], float | None], value_of: Callable[[Expression], float | None]
) -> float | None:
    if isinstance(node, Load | Gather):
        return other(node)
    if isinstance(node, Constant):
        return float(node.value)
    if isinstance(node, Cast):
        inner = value_of(node.argument)
        return inner if inner is not None and (kind_of(node.dtype) == "float" or math.isfinite(inner)) else None
    if not isinstance(node, Apply):
        return None
    values = [value_of(argument) for argument in node.arguments]
    first = values[0]
    if (
        node.function == "sub"
        and first == -math.inf
        and not any(isinstance(inner, Load | Gather | Index) for inner in walk(node.arguments[1]))
    ):
        return -math.inf  # what a row shares is taken off
    if any(value is None for value in values):
        return None
    known = [float(value) for value in values if value is not None]
    if node.function in ("exp", "exp2"):
        return 0.0 if known[0] == -math.inf else None
    if node.function in ("square", "abs") and known[0] == 0:
        return 0.0
    if node.function in ("relu", "neg") and known[0] == 0:
        return 0.0
    if node.function == "mul" and all(math.isfinite(value) for value in known):
        return known[0] * known[1]
    return None


def choose_other(reductions: list[Reduction], reduced: Callable[[Load | Gather], bool]) -> float:
    """The value for masked lanes that spares most selects: 0, or an infinity."""

    def spared(candidate: float) -> int:
        return sum(is_neutral(reduction, candidate, reduced) for reduction in reductions)

    return max((0.0, -math.inf, math.inf), key=spared)


def is_neutral(reduction: Reduction, candidate: float, reduced: Callable[[Load | Gather], bool]) -> bool:
    def other(node: Load | Gather) -> float | None:
        if not reduced(node):
            return None
        return candidate if node.dtype not in (*INTEGERS, "bool") else 0.0

    if reduction.operation in ("any", "all"):
        return False
    return at_masked(reduction.body, other) == NEUTRAL[reduction.operation]
