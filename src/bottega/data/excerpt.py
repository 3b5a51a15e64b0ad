"""The piece of a candidate that shows what is new in it: the kernel that differs most from those of the candidate before."""

from __future__ import annotations

import ast
import re
import textwrap

from bottega.data.mistakes.mistake import kernels, native

_FUNCTION = re.compile(
    r'^(?:extern "C"|template\b|static\b|inline\b|__device__|__global__|__forceinline__)[^;{]{0,600}\{', re.M
)


def excerpt(source: str, before: str, language: str) -> str:
    """Empty where no kernel is found."""
    pieces = _pieces(source, language)
    known = {line.strip() for line in before.splitlines()}
    ranked = sorted(pieces, key=lambda piece: -_new_lines(piece, known))
    return textwrap.dedent(ranked[0]).strip("\n") if ranked else ""


def _new_lines(piece: str, known: set[str]) -> int:
    return sum(bool(line.strip()) and line.strip() not in known for line in piece.splitlines())


def _pieces(source: str, language: str) -> list[str]:
    if language == "triton":
        return [source[start:end] for start, end in kernels(source)]
    found = []
    for start, end in native(source):
        text = ast.literal_eval(source[start:end])
        found += [_body(text, match.start(), match.end()) for match in _FUNCTION.finditer(text)]
    return [piece for piece in found if piece]


def _body(text: str, start: int, opened: int) -> str:
    """From a function's first word to the brace that closes it."""
    depth = 1
    for place in range(opened, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start : place + 1]
    return ""
