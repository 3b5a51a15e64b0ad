"""Kernels that differ in their names alone are written once: a network calls the same kernel for each of its layers."""

from __future__ import annotations

import re

from bottega.languages import language_named

_TRITON = re.compile(
    r"@triton\.jit\ndef (?P<name>\w+)\((?P<head>[^:]*?(?::[^:]*?)*?)\):\n(?P<body>(?:    .*\n|\n(?=    ))+)\n*"
)
_C = re.compile(r'(?P<mark>extern "C" (?:__global__ )?void )(?P<name>\w+)\((?P<head>[^)]*)\) \{\n(?P<body>(?:.*\n)*?)\}\n\n?')
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w)(?!\s*\()")
_FIXED = frozenset(
    (
        *("const", "float", "double", "bool", "char", "int", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t"),
        *(
            "uint32_t",
            "uint64_t",
            "unsigned",
            "void",
            "auto",
            "static",
            "constexpr",
            "for",
            "while",
            "if",
            "else",
            "return",
            "pragma",
        ),
        *(
            "omp",
            "parallel",
            "simd",
            "schedule",
            "dynamic",
            "true",
            "false",
            "INFINITY",
            "NAN",
            "True",
            "False",
            "None",
            "not",
            "and",
        ),
        *("or", "in", "half", "float4", "double2"),
    )
)
"""Words that are the same in every kernel, so that types and loops are compared as they stand."""
_LIBRARY = re.compile(r'^(\w+) = \w+\(r?"""', re.MULTILINE)
_CONSTEXPR = re.compile(r"(\w+): tl\.constexpr")


def with_shared_kernels(source: str, language: str) -> str:
    """The source with every kernel that repeats an earlier one left out, and its calls turned to that one."""
    pattern = _C if language_named(language).embedded else _TRITON
    known: dict[tuple[str, ...], str] = {}
    swap: dict[str, str] = {}

    def once(match: re.Match[str]) -> str:
        text = f"{match['head']}\n{match['body']}"
        # Sizes that are passed by keyword keep their names: the calls name them.
        key = (_nameless(text), *_CONSTEXPR.findall(match["head"]))
        first = known.setdefault(key, match["name"])
        if first == match["name"]:
            return match.group(0)
        swap[match["name"]] = first
        return ""

    thinned = pattern.sub(once, source)
    return _called(thinned, swap, language) if swap else source


def _nameless(text: str) -> str:
    """The text with every name that is not called, and is no attribute, replaced by its number."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        word = match.group(0)
        return word if word in _FIXED else numbers.setdefault(word, f"#{len(numbers)}")

    return re.sub(r"\s+", " ", _WORD.sub(number, text))


def _called(source: str, swap: dict[str, str], language: str) -> str:
    """A kernel may have the name of a method of tensors, so that a function of a library counts by the library that it is called of."""
    embedded = language_named(language).embedded
    libraries = "|".join(_LIBRARY.findall(source)) if embedded else ""
    mark = rf"(?<![\w.])((?:{libraries})\.)" if embedded else r"(?<![\w.])()"
    names = "|".join(sorted(map(re.escape, swap), key=len, reverse=True))
    return re.sub(rf"{mark}({names})(?=[\[(])", lambda match: match.group(1) + swap[match.group(2)], source)
