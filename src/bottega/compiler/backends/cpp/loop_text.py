"""Loops as lines of C, for C++ and CUDA alike: heads, nests, blocks, and the value that a reduction starts with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bottega.compiler.backends.cpp.space import Axis

WHOLE = "simdlen(16)"
_START = {"sum": "0", "prod": "1", "any": "false", "all": "true"}


def head(axis: Axis) -> str:
    return f"for (int64_t {axis.index} = 0; {axis.index} < {axis.size}; ++{axis.index})"


def heads(axes: Sequence[Axis]) -> list[str]:
    """Loops in each other, without a body."""
    return [indent(head(axis), depth) for depth, axis in enumerate(axes)]


def nest(axes: Sequence[Axis], inside: Sequence[str]) -> list[str]:
    """Loops in each other around these lines, in braces."""
    return braced(heads(axes), inside) if axes else list(inside)


def braced(loops: Sequence[str], inside: Sequence[str]) -> list[str]:
    """These lines as the body of the innermost of some loops, each of which is indented below the one before."""
    depth = len(loops)
    return [*loops[:-1], loops[-1] + " {", *(indent(line, depth) for line in inside), indent("}", depth - 1)]


def over(axes: Sequence[Axis], statements: list[str]) -> list[str]:
    """Loops in each other over these statements, in braces where there are several."""
    return [*heads(axes), *(indent(line, len(axes) - 1) for line in block(statements))]


def region(pragma: str, inside: Sequence[str]) -> list[str]:
    """A parallel region."""
    return [pragma, "{", *(indent(line, 1) for line in inside), "}"]


def block(lines: list[str]) -> list[str]:
    """The body of the loop whose head is the line before: indented, or in braces where it has several statements."""
    if len(lines) == 1:
        return [indent(lines[0], 1)]
    return ["{", *(indent(line, 1) for line in lines), "}"]


def whole_vectors(lines: Sequence[str]) -> list[str]:
    """Loops that evaluate polynomials get vectors of 16 floats where the machine has them: for such a machine g++ takes half of one, which is right
    for what waits for memory. Elsewhere the number is ignored."""
    widened = list(lines)
    for at, line in enumerate(lines):
        if not re.match(r"\s*#pragma omp .*\bsimd\b", line):
            continue
        deeper = " " * (len(line) - len(line.lstrip()) + 1)
        end = next((place for place in range(at + 2, len(lines)) if not lines[place].startswith(deeper)), len(lines))
        if any("_simd(" in other for other in lines[at + 2 : end]):
            widened[at] += f" {WHOLE}"
    return widened


def collapse(count: int) -> str:
    return f" collapse({count})" if count > 1 else ""


def indent(line: str, depth: int) -> str:
    return "  " * depth + line


def start_of(operation: str, kind: str) -> str:
    """What a reduction begins with: the value that changes nothing."""
    if operation in _START:
        return _START[operation]
    sign = "-" if "max" in operation else ""
    return f"{sign}INFINITY" if kind in ("float", "double") else f"INT64_{'MIN' if sign else 'MAX'}"


def better(operation: str, one: str, best: str) -> str:
    """Whether a value takes the place of the best so far of an argmax or argmin, where NaN comes before everything."""
    return f"{one} {'>' if 'max' in operation else '<'} {best} || ({one} != {one} && {best} == {best})"
