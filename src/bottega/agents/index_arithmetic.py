"""Index arithmetic of kernels, reckoned: whole numbers and blocks of them, added, divided, compared and turned as Triton does.

What is no number (loaded values, floats, an unknown function's result) is `UNKNOWN`, and so is whatever is made of it. Blocks are bounded.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

LANES = 2**18
"""The most elements of a block that are reckoned."""
_LARGEST = 2**62


class Unknown:
    """What cannot be reckoned; whatever is made of it is unknown, too."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


class GivesUp(Exception):
    """Nothing can be said of this answer."""


@dataclass(frozen=True)
class Pointer:
    tensor: Any
    offset: Any = 0


def of_numbers(word: str, numbers: list[int]) -> Any:
    match word.rpartition(".")[2], numbers:
        case "cdiv", [left, right]:
            return -(-left // right)
        case "next_power_of_2", [number]:
            return 1 << max(0, number - 1).bit_length()
        case "max", [_, _, *_]:
            return max(numbers)
        case "min", [_, _, *_]:
            return min(numbers)
        case "int", [number]:
            return number
    return UNKNOWN


def word_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer | np.bool_ | np.ndarray)


def are_numbers(*values: Any) -> bool:
    """Raises where together they would be more than a block."""
    if not all(is_number(one) for one in values):
        return False
    if prod(np.broadcast_shapes(*(np.shape(one) for one in values))) > LANES:
        raise GivesUp
    return True


def binary(operator: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, Pointer) and isinstance(operator, ast.Add):
        return Pointer(left.tensor, binary(operator, left.offset, right))
    if isinstance(right, Pointer) and isinstance(operator, ast.Add):
        return Pointer(right.tensor, binary(operator, left, right.offset))
    if not are_numbers(left, right):
        return UNKNOWN
    match operator:
        case ast.Add():
            found = left + right
        case ast.Sub():
            found = left - right
        case ast.Mult():
            found = left * right
        case ast.FloorDiv() if np.all(np.asarray(right) != 0):
            found = left // right
        case ast.Mod() if np.all(np.asarray(right) != 0):
            found = left % right
        case ast.BitAnd():
            found = left & right
        case ast.BitOr():
            found = left | right
        case _:
            return UNKNOWN
    return found if isinstance(found, np.ndarray) or abs(int(found)) < _LARGEST else UNKNOWN


def unary(operator: ast.unaryop, value: Any) -> Any:
    if not is_number(value):
        return UNKNOWN
    if isinstance(operator, ast.USub):
        return -value
    if isinstance(operator, ast.Invert | ast.Not) and np.asarray(value).dtype == bool:
        return ~np.asarray(value)
    return UNKNOWN


def compared(operator: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(operator, ast.Is | ast.IsNot) and right is None and left is not UNKNOWN:
        return (left is None) == isinstance(operator, ast.Is)
    if not are_numbers(left, right):
        return UNKNOWN
    match operator:
        case ast.Lt():
            return left < right
        case ast.LtE():
            return left <= right
        case ast.Gt():
            return left > right
        case ast.GtE():
            return left >= right
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
    return UNKNOWN


def turned(value: Any, place: ast.expr) -> Any:
    """`lane[:, None]`, `shape[1]`."""
    parts = place.elts if isinstance(place, ast.Tuple) else [place]
    if isinstance(value, tuple) and isinstance(place, ast.Constant) and isinstance(place.value, int):
        return value[place.value]
    wanted: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None:
            wanted.append(slice(None))
        elif isinstance(part, ast.Constant) and part.value is None:
            wanted.append(None)
        else:
            return UNKNOWN
    return value[tuple(wanted)] if isinstance(value, np.ndarray) else UNKNOWN


def index_in(operand: tuple[Any, ...], whole: tuple[Any, ...], offsets: Any) -> Any:
    """As the shelf's kernel function does."""
    if not all(type(size) is int and size > 0 for size in (*operand, *whole)):
        return UNKNOWN
    found, inner, stride = offsets * 0, 1, 1
    for back in range(1, len(whole) + 1):
        if back <= len(operand):
            if operand[-back] > 1:
                at = offsets // inner
                found = found + (at % whole[-back] if back < len(whole) else at) * stride
            stride *= operand[-back]
        inner *= whole[-back]
    return found


def index_in_part(whole: tuple[Any, ...], dim: int, start: int, part: tuple[Any, ...], offsets: Any) -> Any:
    if not all(type(size) is int and size > 0 for size in (*whole, *part)) or not 0 <= dim < min(len(whole), len(part)):
        return UNKNOWN
    inner = prod(part[dim + 1 :])
    return offsets + offsets // (inner * part[dim]) * (inner * (whole[dim] - part[dim])) + start * inner
