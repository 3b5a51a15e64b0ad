"""Mistakes of the computation itself, which C++, CUDA and Triton share: the text is alike enough for one set of changes."""

from __future__ import annotations

import re

from bottega.data.mistakes.mistake import (
    anywhere,
    everywhere,
    in_strings,
    in_strings_on_cpu,
    in_strings_on_gpu,
    kernels,
    mistake,
    native,
)

_NAME = r"[A-Za-z_][\w.]*"
_COUNT = r"(?:\(float\)\s*|float\(|static_cast<\w+>\(|\(double\)\s*|double\()?"


def _everywhere(source: str) -> list[tuple[int, int]]:
    """The native text where there is one, Triton's functions otherwise."""
    return native(source) or kernels(source)


def _swapped(match: re.Match[str]) -> str | None:
    left, sign, right = match.group(1), match.group(2), match.group(3)
    return f"{right} {sign} {left}" if left != right else None


def _turned(match: re.Match[str]) -> str | None:
    """`row * width + i` becomes `i * width + row`."""
    row, width, inner = match.groups()
    return f"{inner} * {width} + {row}" if len({row, width, inner}) == 3 else None


ARITHMETIC = (
    mistake(
        "wrong_neutral_value",
        everywhere,
        "The running maximum starts from minus infinity, not from 0.",
        anywhere(
            r'-\s*INFINITY|-\s*FLT_MAX|-std::numeric_limits<float>::(?:infinity|max)\(\)|-?float\(["\']-?inf["\']\)|-1e30f?|-3\.4\w*38f?',
            "0.0",
            _everywhere,
        ),
    ),
    mistake(
        "wrong_divisor",
        everywhere,
        "The mean divides by the number of elements.",
        anywhere(rf"(?<!/)/(?!/)\s*({_COUNT})({_NAME})(?=[\s;)+,*]|$)", r"/ \1(\2 - 1)", _everywhere),
        anywhere(r"\*\s*(inv_\w+|inverse_\w+|reciprocal\w*)", r"* (2.0f * \1)", _everywhere),
        anywhere(
            r"/\s*(\d{2,})(\.\d*f?|\.f)?(?=[\s;)+,*]|$)", lambda m: f"/ {int(m.group(1)) - 1}{m.group(2) or ''}", _everywhere
        ),
    ),
    mistake(
        "dropped_epsilon",
        everywhere,
        "Epsilon goes under the root, as in the original.",
        anywhere(r"\s*\+\s*(?:eps\w*|[\w.]*epsilon\w*|1e-\d+f?|\d\.\d+e-\d+f?)(?=[\s;)])", "", _everywhere),
    ),
    mistake(
        "wrong_index_order",
        everywhere,
        "Rows and columns are indexed in the order in which they lie in memory.",
        anywhere(rf"\b({_NAME}) \* ({_NAME}) \+ ({_NAME})\b(?!\s*[*(\[])", _turned, _everywhere),
    ),
    mistake(
        "wrong_stride",
        everywhere,
        "A row is as far from the next as it is long.",
        anywhere(r"\+ (\w*row\w*|\w*pid\w*|r|n|b) \* (\w+)", r"+ \1 * (\2 - 1)", _everywhere),
    ),
    mistake(
        "swapped_operands",
        everywhere,
        "Subtraction and division take their operands in the original's order.",
        anywhere(rf"\b({_NAME}(?:\[\w+\])?) ([-/]) (?!/)({_NAME}(?:\[\w+\])?)(?=[\s;),]|$)", _swapped, _everywhere),
    ),
    mistake(
        "missing_bias",
        everywhere,
        "The bias is added.",
        anywhere(r"\s*\+\s*(?:bias|shift|beta|b|bb|bias_\w+)(?:\[[^\]]*\])?(?=[\s;)])", "", _everywhere),
    ),
    mistake(
        "wrong_sign",
        everywhere,
        "The sign of the exponent is the original's.",
        anywhere(r"(expf?|tl\.exp|__expf)\(-\s*", r"\1(", _everywhere),
    ),
    mistake(
        "wrong_constant",
        everywhere,
        "The constant is the original's.",
        anywhere(r"(?<![\w.])0\.(\d{2,})(f?)(?![\w.])", lambda m: f"0.{m.group(1)[:1]}{m.group(2)}", _everywhere),
    ),
)

NATIVE_TEXT = (
    mistake(
        "loop_stops_short",
        in_strings,
        "The loop runs to the last element.",
        anywhere(r"(for \([^;\n]*; *\w+ *< *)(\w+)( *;)", r"\1\2 - 1\3", native),
    ),
    mistake(
        "missing_tail",
        in_strings_on_cpu,
        "What is left after the last whole block is computed too.",
        anywhere(r"(for \([^;\n]*; *\w+ *< *)(\w+)( *; *(?:\+\+\w+|\w+\+\+)\))", r"\1\2 / 32 * 32\3", native),
    ),
    mistake(
        "uninitialised_sum",
        in_strings,
        "The sum starts from 0.",
        anywhere(r"\b(float|double) (\w+) = 0(?:\.0?)?f?;", r"\1 \2;", native),
    ),
    mistake(
        "race_in_reduction",
        in_strings_on_cpu,
        "The sum over threads is declared as a reduction.",
        anywhere(
            r"^([ \t]*)#pragma omp simd reduction\([^)]*\)|( reduction\([^)]*\))",
            lambda m: "" if m.group(2) else f"{m.group(1)}#pragma omp parallel for",
            native,
        ),
    ),
    mistake(
        "low_precision_sum",
        in_strings,
        "Sums are kept in full precision.",
        anywhere(r"\bdouble\b", "float", native, every=True),
        anywhere(r"\b(\w+) \+= ([^;\n()]*(?:\([^;\n()]*\)[^;\n()]*)*);", r"\1 = (float)(_Float16)(\1 + (\2));", native),
    ),
    mistake(
        "unknown_identifier",
        in_strings,
        "Every name in the kernel is declared.",
        anywhere(r"(?<=[<*(\[ ])(rows|columns|cols|width|count|features|size|n|total|numel)(?=[ ;)\]])(?! *=)", r"\1_", native),
    ),
    mistake("missing_semicolon", in_strings, "The statement ends with a semicolon.", anywhere(r";$", "", native)),
    mistake(
        "missing_include",
        in_strings,
        "The headers that are used are included.",
        anywhere(r"^#include <\w+>\n", "", native, every=True),
    ),
    mistake(
        "wrong_pointer_type",
        in_strings,
        "The kernel's pointers have the tensors' data type.",
        anywhere(r"const float ?\* ?(?:__restrict__ )?(\w+)(?=,)", r"const double* \1", native),
    ),
    mistake(
        "missing_bounds_check",
        in_strings_on_gpu,
        "Threads beyond the last element do nothing.",
        anywhere(r"^[ \t]*if \(\w+ >= \w+\) return;\n", "", native),
    ),
    mistake(
        "missing_sync",
        in_strings_on_gpu,
        "Threads wait for each other before they read what the others wrote.",
        anywhere(r"^[ \t]*__syncthreads\(\);\n", "", native),
    ),
)
