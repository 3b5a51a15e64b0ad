"""How small things are spelled in Triton: numbers, types, brackets."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bottega.compiler.call_names import DIGITS

COMPARE, OR, AND, ADD, MUL, UNARY, ATOM = range(1, 8)
"""How tightly an operator binds; of less than what is wanted, a text needs brackets."""
EIGHT_BITS = {"float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}
"""Torch's names of floats of eight bits, and Triton's."""
NARROW = ("float16", "bfloat16", "half", *EIGHT_BITS)
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
SHORT = ("int8", "uint8", "int16")
"""Integers that are computed with 32 bits, and cut where torch cuts them."""
OF_MATHEMATICS = frozenset(
    (math.sqrt(0.5), math.sqrt(2 / math.pi), math.pi, 1 / math.log(10), 1.0507009873554805, 1.6732632423543772)
)
"""Which have all their digits in every answer."""


def kind_of(dtype: str) -> str:
    return "bool" if dtype == "bool" else "int" if dtype in INTEGERS else "float"


def most(kinds: Iterable[str]) -> str:
    found = set(kinds)
    return "float" if "float" in found else "int" if "int" in found else "bool"


def wrap(text: str, level: int, wanted: int) -> str:
    return f"({text})" if level < wanted else text


NEGATIVE_ZERO = "tl.full((), -2147483648, tl.int32).to(tl.float32, bitcast=True)"
"""By its bits: Triton before 3.7 makes a zero of its own sign out of any that equals zero."""


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
    if value == 0 and math.copysign(1, value) < 0:
        return NEGATIVE_ZERO
    return repr(value)


def loaded(text: str, dtype: str) -> str:
    """A load's text with the conversion that narrow numbers need."""
    return f"{text}.to(tl.{'float32' if dtype in NARROW else 'int32'})" if dtype in (*NARROW, *SHORT) else text
