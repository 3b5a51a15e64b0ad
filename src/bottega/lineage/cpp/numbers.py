"""Arithmetic and compiler flags: a cheaper exponential, a reciprocal in place of divisions, the width of sums and vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bottega.lineage.cpp.rewriting import Change, cpp_rule
from bottega.lineage.cpp.text import Span, blanked, embedded_texts, function_at, functions, replaced
from bottega.lineage.rule import Edit, FunctionRule, Rule, Technique, conditions

_FLOAT_SUM = re.compile(r"\bfloat\s+(?P<name>\w+)\s*=\s*0(?:\.0*)?f?\s*;")
_DOUBLE_SUM = re.compile(r"\bdouble\s+(?P<name>\w+)\s*=\s*0(?:\.0*)?\s*;")
_RECIPROCAL = re.compile(r"const\s+float\s+(?P<name>\w+)\s*=\s*1(?:\.0*)?f?\s*/\s*(?P<of>[^;\n]+);")
_EXP_CALL = re.compile(r"\b(?:std::expf?|expf)\(")
FAST_EXP = """static inline float fast_exp(float x) {
  x = x < -87.f ? -87.f : (x > 88.f ? 88.f : x);
  const float n = std::floor(x * 1.44269504f + 0.5f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * __builtin_bit_cast(float, (static_cast<int32_t>(n) + 127) << 23);
}
"""
"""Cephes' polynomial; good to 2 units in the last place, and made of operations that have vector forms."""


def undo_float_sums(text: str) -> Iterator[Change]:
    plain = blanked(text)
    edits = []
    for found in _FLOAT_SUM.finditer(plain):
        if re.search(rf"\b{found['name']}\s*\+=", plain):
            edits.append((Span(*found.span()), f"double {found['name']} = 0.0;"))
    if edits:
        yield replaced(text, edits), function_at(text, edits[0][0].start), "float"


def redo_float_sums(text: str, value: str) -> Iterator[Change]:
    found = list(_DOUBLE_SUM.finditer(blanked(text)))
    if found:
        edits = [(Span(*each.span()), f"float {each['name']} = 0.f;") for each in found]
        yield replaced(text, edits), function_at(text, found[0].start()), value


def undo_reciprocal(text: str) -> Iterator[Change]:
    plain = blanked(text)
    for found in _RECIPROCAL.finditer(plain):
        uses = list(re.finditer(rf"\s*\*\s*{found['name']}\b", plain[found.end() :]))
        named = len(re.findall(rf"\b{found['name']}\b", plain[found.end() :]))
        if uses and len(uses) == named:
            whole = Span(*found.span())
            edits = [(whole, f"const float {found['name']} = {text[found.start('of') : found.end('of')]};")]
            edits += [(Span(found.end() + use.start(), found.end() + use.end()), f" / {found['name']}") for use in uses]
            yield replaced(text, edits), function_at(text, found.start()), found["name"]
            return


def redo_reciprocal(text: str, value: str) -> Iterator[Change]:
    """A value that is only ever divided by, declared as a constant: its reciprocal is multiplied by."""
    plain = blanked(text)
    for found in re.finditer(r"const\s+float\s+(?P<name>\w+)\s*=\s*(?P<of>[^;\n]+);", plain):
        rest = plain[found.end() :]
        uses = list(re.finditer(rf"/\s*{found['name']}\b", rest))
        if uses and len(uses) == len(re.findall(rf"\b{found['name']}\b", rest)):
            of = text[found.start("of") : found.end("of")]
            edits = [(Span(*found.span("of")), f"1.f / ({of})")]
            edits += [(Span(found.end() + use.start(), found.end() + use.end()), f"* {found['name']}") for use in uses]
            yield replaced(text, edits), function_at(text, found.start()), value


def undo_fast_exp(text: str) -> Iterator[Change]:
    for each in functions(text):
        argument = re.fullmatch(r"\s*(?:const\s+)?float\s+(\w+)\s*", each.arguments.of(text))
        if not each.exported and argument and re.search(r"exp", each.name) and "std::exp" not in each.body.of(text):
            new = replaced(text, [(each.body, f" return std::exp({argument[1]}); ")])
            yield _including(new, "cmath"), each.name, each.name


def redo_fast_exp(text: str, value: str) -> Iterator[Change]:
    for each in functions(text):
        argument = re.fullmatch(r"\s*return std::exp\((\w+)\);\s*", each.body.of(text))
        if not each.exported and argument:
            polynomial = next(helper for helper in functions(FAST_EXP)).body.of(FAST_EXP)
            renamed = re.sub(r"\bx\b", argument[1], polynomial)
            yield _including(replaced(text, [(each.body, renamed)]), "cstdint"), each.name, value
            return
    calls = list(_EXP_CALL.finditer(blanked(text)))
    if calls and "fast_exp(" not in text:
        new = replaced(text, [(Span(*call.span()), "fast_exp(") for call in calls])
        last = max((found.end() for found in re.finditer(r"^#include[^\n]*\n", new, re.M)), default=0)
        new = f"{new[:last]}\n{FAST_EXP}{new[last:]}"
        yield _including(_including(new, "cmath"), "cstdint"), function_at(text, calls[0].start()), value


def _including(text: str, header: str) -> str:
    return text if f"<{header}>" in text else f"\n#include <{header}>{text if text.startswith(chr(10)) else chr(10) + text}"


def flag_rule(technique: Technique, flag: str) -> Rule:
    """A compiler flag of `cpp(source, flags=(…))`, which stands behind the C++ text."""
    quoted = re.compile(rf"""["']{flag}["']\s*,?\s*""")

    def undo(source: str) -> Iterator[Edit]:
        for span, _ in embedded_texts(source):
            found = quoted.search(source, span.end)
            if found:
                yield Edit(source[: found.start()] + source[found.end() :], "flags", found[0].strip(" ,\n").strip("\"'"))
                return

    def redo(source: str, value: str) -> Iterator[Edit]:
        for span, _ in embedded_texts(source):
            behind = source[span.end + 3 :]
            given = re.match(r"\s*,\s*flags=\(", behind)
            closed = re.match(r"\s*\)", behind)
            at = span.end + 3 + (given.end() if given else 0)
            if value and (given or closed):
                new = f'"{value}", ' if given else f', flags=("{value}",)'
                yield Edit(source[:at] + new + source[at:], "flags", value)

    return FunctionRule(technique, undo, redo)


FLOAT_SUMS = cpp_rule(
    Technique(
        "float_sums",
        "Sum in float lanes instead of double: twice the lanes, half the conversions.",
        "Sums of float elements in a `double` variable.",
        "Declare the sum as `float` and let the loop run in lanes (`omp simd reduction`), which keeps several partial sums and so loses fewer digits "
        "than one running sum.",
        conditions(data_types="fp32 inputs; the sum runs in lanes or in blocks, so that its error stays near the reference's own."),
        ("One running float sum over millions of elements loses digits that the reference keeps.",),
        ("precision", "reduction", "simd"),
    ),
    undo_float_sums,
    redo_float_sums,
)  # fmt: skip
RECIPROCAL = cpp_rule(
    Technique(
        "reciprocal",
        "Divide once and multiply by the reciprocal: a division takes ten times as long as a product.",
        "A loop that divides every element by the same value.",
        "Compute `const float inverse = 1.f / total;` before the loop and multiply by it.",
        conditions(data_types="One rounding more than a true division: half a unit in the last place."),
        ("For a denormal or zero total the reciprocal overflows where the quotient would not.",),
        ("division", "strength_reduction"),
    ),
    undo_reciprocal,
    redo_reciprocal,
)  # fmt: skip
EXPONENTIAL = cpp_rule(
    Technique(
        "fast_exp",
        "An exponential made of products and sums, which runs in vector lanes where the library's does not.",
        "`std::exp` in an inner loop: softmax, sigmoid, swish, cross-entropy.",
        "Split the argument into a power of two and a rest, evaluate a polynomial of degree six on it, and build the power of two from its bits. "
        "Clamp the argument so that the bits stay in range. The loop around it then takes `omp simd`.",
        conditions(data_types="float; good to 2 units in the last place, without infinities and NaN.", hardware="Vector fused multiply-add."),
        ("Without the clamp, large negative arguments (masked scores) give wild bits instead of zero.",),
        ("exp", "polynomial", "simd", "softmax"),
    ),
    undo_fast_exp,
    redo_fast_exp,
)  # fmt: skip
FAST_MATH = flag_rule(
    Technique(
        "fast_math",
        "Allow the compiler to reorder sums and drop special cases: `-ffast-math`.",
        "`cpp(source)` without flags, around loops that add up floats.",
        "Pass `flags=(\"-ffast-math\",)` to `cpp`. Reductions then vectorise without a pragma.",
        conditions(data_types="No NaN and no infinity in inputs, intermediate values or masks."),
        ("-INFINITY as the start of a maximum, or as a mask, is undefined under it.",),
        ("compiler_flags", "fast_math"),
    ),
    "-ffast-math",
)  # fmt: skip
VECTOR_WIDTH = flag_rule(
    Technique(
        "vector_width",
        "Use the machine's widest vectors, which compilers avoid by default.",
        "`cpp(source)` on a CPU with AVX-512, around a kernel that computes more than it loads.",
        "Pass `flags=(\"-mprefer-vector-width=512\",)` to `cpp`.",
        conditions(hardware="AVX-512, on a core whose clock does not fall much under it."),
        ("Short rows fill half a vector, and the tail loop eats the gain.",),
        ("compiler_flags", "vector_width", "avx512"),
    ),
    "-mprefer-vector-width=512",
)  # fmt: skip

NUMBER_RULES: tuple[Rule, ...] = (VECTOR_WIDTH, FAST_MATH, RECIPROCAL, FLOAT_SUMS, EXPONENTIAL)
