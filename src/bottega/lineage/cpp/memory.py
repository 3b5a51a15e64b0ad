"""What the compiler is told about memory, and hints to the memory system: aliasing, alignment, prefetching, local copies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bottega.lineage.cpp.rewriting import Change, by_example, cpp_rule
from bottega.lineage.cpp.text import Span, blanked, closing, function_at, functions, loops, replaced, statements
from bottega.lineage.rule import Rule, Technique, conditions

_RESTRICT = re.compile(r"\s?\b__restrict(?:__)?\b")
_POINTER = re.compile(r"\*\s*(?=\w+\s*(?:,|$))")
_ALIGNED = re.compile(r"\balignas\((?P<bytes>\d+)\)\s*")
_LOCAL = re.compile(
    r"^(?P<indent>[ \t]+)(?=(?:float|double|int32_t|int64_t|uint16_t)\s+\w+\[[^\]]+\](?:\[[^\]]+\])?\s*(?:=|;))", re.M
)
_PREFETCH = re.compile(r"^[ \t]*(?:if\s*\([^\n;]*\)\s*)?__builtin_prefetch\([^;\n]*;\n", re.M)
_ROW = re.compile(r"^(?P<indent>[ \t]*)const\s+\w+\s*\*\s*(?:__restrict__\s+)?\w+\s*=\s*(?P<place>[^;\n]+);\n", re.M)
_FILL = re.compile(r"(?P<name>\w+)\[(?P<at>[^\[\]]+)\]\s*=\s*(?P<value>[^;=]+);")


def undo_restrict(text: str) -> Iterator[Change]:
    found = list(_RESTRICT.finditer(blanked(text)))
    if found:
        yield replaced(text, [(Span(*each.span()), "") for each in found]), function_at(text, found[0].start()), ""


def redo_restrict(text: str, value: str) -> Iterator[Change]:
    edits = []
    for each in functions(text):
        if each.exported and "__restrict" not in each.arguments.of(text):
            for found in _POINTER.finditer(each.arguments.of(text)):
                start = each.arguments.start + found.start()
                edits.append((Span(start, start + len(found[0])), "* __restrict__ "))
    if edits:
        yield replaced(text, edits), function_at(text, edits[0][0].start), value


def undo_alignment(text: str) -> Iterator[Change]:
    found = list(_ALIGNED.finditer(text))
    if found:
        yield (
            replaced(text, [(Span(*each.span()), "") for each in found]),
            function_at(text, found[0].start()),
            found[0]["bytes"],
        )


def redo_alignment(text: str, value: str) -> Iterator[Change]:
    found = list(_LOCAL.finditer(text))
    if found:
        edits = [(Span(each.end("indent"), each.end("indent")), f"alignas({value or 64}) ") for each in found]
        yield replaced(text, edits), function_at(text, found[0].start()), value


def undo_prefetch(text: str) -> Iterator[Change]:
    found = list(_PREFETCH.finditer(text))
    if found:
        yield replaced(text, [(Span(*each.span()), "") for each in found]), function_at(text, found[0].start()), ""


def redo_prefetch(text: str, value: str) -> Iterator[Change]:
    """The next turn's row, where a loop makes a pointer to this turn's."""
    for loop in loops(text):
        variable = loop.variable(text)
        row = _ROW.search(text, loop.body.start, loop.body.end)
        if variable and row and re.search(rf"\b{variable}\b", row["place"]):
            following = re.sub(rf"\b{variable}\b", f"({variable} + 1)", row["place"])
            line = f"{row['indent']}__builtin_prefetch({following});\n"
            yield replaced(text, [(Span(row.end(), row.end()), line)]), function_at(text, row.start()), value
            return


def undo_staging(text: str) -> Iterator[Change]:
    """A local array that a loop fills from elsewhere: its readers read there again."""
    plain = blanked(text)
    for loop in reversed(loops(text)):
        inside = statements(text, loop.body)
        fill = _FILL.fullmatch(inside[0].of(plain).strip()) if len(inside) == 1 else None
        variable = loop.variable(text)
        if fill is None or not variable or fill["at"].strip() != variable or fill["name"] in fill["value"]:
            continue
        name, declared = (
            fill["name"],
            re.compile(rf"^[ \t]*(?:alignas\(\d+\)\s*)?(?:float|double|std::vector<\w+>)\s+{fill['name']}\b[^;\n]*;\n", re.M),
        )
        declaration = declared.search(text)
        if declaration is None:
            continue
        edits = [(Span(*declaration.span()), ""), (Span(loop.begin, loop.span.end), "")]
        reads = []
        for read in re.finditer(rf"\b{name}\[", plain):
            end = closing(plain, read.end() - 1)
            if (
                not loop.span.start <= read.start() < loop.span.end
                and not declaration.start() <= read.start() < declaration.end()
            ):
                reads.append((Span(read.start(), end), text[read.end() : end - 1]))
        if not reads or re.search(rf"\b{name}\b(?!\[)", _without(plain, [edit[0] for edit in edits])):
            continue
        edits += [(span, "(" + re.sub(rf"\b{variable}\b", f"({at})", fill["value"].strip()) + ")") for span, at in reads]
        yield replaced(text, edits), function_at(text, loop.span.start), name
        return


def _without(text: str, spans: list[Span]) -> str:
    return replaced(text, [(span, "") for span in spans])


RESTRICT = cpp_rule(
    Technique(
        "restrict",
        "Promise the compiler that arguments do not overlap, so that loops over them vectorise without checks.",
        "Pointer arguments of an `extern \"C\"` function that are read and written in one loop.",
        "Write `const float* __restrict__ x, float* __restrict__ y` in the signature, for every pointer.",
        conditions(storage="Input and output tensors do not overlap; an in-place call breaks the promise."),
        ("Called with overlapping tensors, the loop reads values that it has not written yet.",),
        ("restrict", "aliasing", "vectorize"),
    ),
    undo_restrict,
    redo_restrict,
)  # fmt: skip
ALIGNMENT = cpp_rule(
    Technique(
        "alignment",
        "Align local arrays to a cache line, so that vector loads do not straddle two.",
        "Local arrays of a kernel that hold a tile, a row or partial sums.",
        "Write `alignas(64)` before the declaration of every local array that is read or written in vectors.",
        conditions(storage="Arrays of fixed size on the stack, small enough for it.", hardware="Vectors of 32 or 64 bytes."),
        ("alignas on a large array overflows the stack just as without it: keep tiles below some 100 KiB.",),
        ("alignment", "cache_line"),
    ),
    undo_alignment,
    redo_alignment,
)  # fmt: skip
PREFETCH = cpp_rule(
    Technique(
        "prefetch",
        "Ask for the next row while this one is worked on, where the hardware cannot guess where it lies.",
        "An outer loop that makes a pointer to its row, above all through an index table.",
        "Behind the row's pointer, call `__builtin_prefetch` with the address that the next turn will have. A wild address does no harm.",
        conditions(pipeline="The next turn's address is known now.", hardware="Memory latency bound: rows of a few cache lines."),
        ("On long contiguous rows the hardware does it already, and the instructions are wasted.",),
        ("prefetch", "latency"),
    ),
    undo_prefetch,
    redo_prefetch,
)  # fmt: skip
STAGING = cpp_rule(
    Technique(
        "staging",
        "Copy what an inner loop reads with a stride into a small local array once, and read it from there.",
        "Strided or repeated reads of the same few kilobytes in an inner loop: a column, a filter, a panel of a matrix.",
        "Declare a local array, fill it in a short loop before the hot one, and read it with stride one afterwards. The copy is paid once and "
        "read many times.",
        conditions(
            layout="The reads are strided or scattered in memory and contiguous in the copy.",
            storage="The copy fits into the first or second cache together with what else the loop reads.",
            pipeline="Each copied element is read several times.",
        ),
        ("Read once only, the copy costs more than it saves.", "Shared by threads, the array must be declared inside the parallel loop."),
        ("staging", "local_copy", "cache", "packing"),
    ),
    undo_staging,
    by_example,
)  # fmt: skip

MEMORY_RULES: tuple[Rule, ...] = (PREFETCH, ALIGNMENT, RESTRICT, STAGING)
