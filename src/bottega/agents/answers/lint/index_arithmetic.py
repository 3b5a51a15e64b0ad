"""Index arithmetic of kernels, reckoned: whole numbers and blocks of them, added, divided, compared and turned as Triton does.

Of what is no whole number (loaded values, floats) only the shape is known, and of some not even that: `UNKNOWN`. Blocks are bounded.
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


@dataclass(frozen=True)
class Unknown:
    """What cannot be reckoned; whatever is made of it is unknown, too."""

    shape: tuple[int, ...] | None = None
    """Of the block, where that is known."""


UNKNOWN = Unknown()


class DoesNotFit(Exception):
    """Blocks of shapes that Triton cannot bring together."""


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
    """Raises where together they would be more than a block, or none."""
    if not all(is_number(one) for one in values):
        return False
    if prod(joined(*values).shape or ()) > LANES:
        raise GivesUp
    return True


def shape_of(value: Any) -> tuple[int, ...] | None:
    """() of a single number; None where it is not known."""
    if isinstance(value, Pointer):
        return shape_of(value.offset)
    if isinstance(value, Unknown):
        return value.shape
    return np.shape(value) if is_number(value) or isinstance(value, float) else None


def joined(*values: Any) -> Unknown:
    """Something made of these, element by element. Raises `DoesNotFit`."""
    shapes = [shape_of(value) for value in values]
    known = [shape for shape in shapes if shape is not None]
    try:
        shape = np.broadcast_shapes(*known)
    except ValueError:
        raise DoesNotFit(f"blocks of {' and '.join('x'.join(map(str, one)) for one in known if one)}") from None
    return Unknown(shape) if len(known) == len(shapes) else UNKNOWN


def covers(place: Any, value: Any) -> bool:
    """Whether a block of a value, or of a mask, can be spread over a block of places. True where that is not known."""
    at, given = shape_of(place), shape_of(value)
    if at is None or given is None:
        return True
    try:
        return np.broadcast_shapes(at, given) == at
    except ValueError:
        return False


def reduced(value: Any, axis: Any, keeps: Any) -> Unknown:
    """A sum or the like along an axis."""
    shape = shape_of(value)
    if shape is None or not shape or not isinstance(axis, int | None) or not isinstance(keeps, bool):
        return UNKNOWN
    if axis is None:
        return Unknown(()) if not keeps else UNKNOWN
    if not -len(shape) <= axis < len(shape):
        raise DoesNotFit(f"a block of {'x'.join(map(str, shape))} and its axis {axis}")
    axis %= len(shape)
    return Unknown(tuple(size if at != axis else 1 for at, size in enumerate(shape) if keeps or at != axis))


def binary(operator: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, Pointer) and isinstance(operator, ast.Add):
        return Pointer(left.tensor, binary(operator, left.offset, right))
    if isinstance(right, Pointer) and isinstance(operator, ast.Add):
        return Pointer(right.tensor, binary(operator, left, right.offset))
    if not are_numbers(left, right):
        return joined(left, right)
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
            return joined(left, right)
    return found if isinstance(found, np.ndarray) or abs(int(found)) < _LARGEST else UNKNOWN


def unary(operator: ast.unaryop, value: Any) -> Any:
    if not is_number(value):
        return joined(value)
    if isinstance(operator, ast.USub):
        return -value
    if isinstance(operator, ast.Invert | ast.Not) and np.asarray(value).dtype == bool:
        return ~np.asarray(value)
    return UNKNOWN


def compared(operator: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(operator, ast.Is | ast.IsNot) and right is None and not isinstance(left, Unknown):
        return (left is None) == isinstance(operator, ast.Is)
    if not are_numbers(left, right):
        return joined(left, right)
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
    if isinstance(value, np.ndarray):
        return value[tuple(wanted)]
    shape = shape_of(value)
    return UNKNOWN if shape is None else Unknown(np.broadcast_to(0, shape)[tuple(wanted)].shape)


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
