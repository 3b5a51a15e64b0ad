"""Types of elements in memory and in arithmetic, and how one becomes the other.

Narrow floats are computed in float and rounded once; integers of all widths are computed in int64_t.
"""

from __future__ import annotations

import math

from bottega.compiler.build_step import Refusal

E4M3 = "float8_e4m3fn"
MEMORY = {
    "float32": "float", "float64": "double", "float16": "_Float16", "bfloat16": "uint16_t", E4M3: "uint8_t",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
ORDER = ("bool", "int64_t", "float", "double")
"""What arithmetic is done in, in the order of promotion."""


def memory_type(dtype: str) -> str:
    if dtype not in MEMORY:
        raise Refusal(f"tensors of {dtype} are not written in C++")
    return MEMORY[dtype]


def compute_type(dtype: str) -> str:
    """What an element is computed in once it is loaded."""
    memory = memory_type(dtype)
    if memory in ("float", "double", "bool"):
        return memory
    return "float" if dtype in ("float16", "bfloat16", E4M3) else "int64_t"


def promoted(*types: str) -> str:
    return max(types, key=ORDER.index)


def floating(kind: str) -> str:
    """The type of a function that is only defined for floats."""
    return kind if kind in ("float", "double") else "float"


def literal(value: float | int | bool, kind: str) -> str:
    """A constant as a person writes it, in the given type."""
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int64_t":
        return str(int(value))
    suffix = "f" if kind == "float" else ""
    number = float(value)
    if math.isnan(number):
        return "NAN"
    if number in (float("inf"), float("-inf")):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = repr(number)
    if text.endswith(".0"):
        text = text[:-1]
        return f"{text}{suffix}" if suffix else f"{text}0"
    return text + suffix
