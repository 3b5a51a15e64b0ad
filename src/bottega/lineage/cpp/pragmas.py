"""What OpenMP and the compiler are told about a loop: threads, their schedule, vector lanes, unrolling."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bottega.lineage.cpp.rewriting import Change, cpp_rule
from bottega.lineage.cpp.text import ForLoop, Span, function_at, functions, inner_loops, loops, outer_loops, replaced
from bottega.lineage.rule import Rule, Technique, conditions

_PARALLEL = re.compile(r"^[ \t]*#pragma omp (?:parallel for|parallel|for)\b(?P<rest>[^\n]*)\n", re.M)
_SIMD = re.compile(r"^[ \t]*#pragma omp simd\b[^\n]*\n", re.M)
_UNROLL = re.compile(r"^[ \t]*#pragma GCC unroll (?P<count>\d+)[^\n]*\n", re.M)
_CLAUSE = r"\s*\b{name}\s*\((?P<inside>[^()]*(?:\([^()]*\)[^()]*)*)\)"
_ADDED = re.compile(r"(?:^|[;{}]|\)\s)\s*([A-Za-z_]\w*)\s*\+=", re.M)
_LARGEST = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*(?:std::max\(\s*\1\b|[^;=]*>\s*\1\s*\?)")


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line if not line.strip() else ""


def _before(text: str, loop: ForLoop, line: str) -> tuple[Span, str]:
    """A line in front of a loop and its pragmas."""
    start = loop.begin if loop.pragmas else loop.span.start - len(_indent(text, loop.span.start))
    return Span(start, start), f"{_indent(text, loop.span.start)}{line}\n"


def undo_threads(text: str) -> Iterator[Change]:
    found = list(_PARALLEL.finditer(text))
    if found:
        clauses = " ".join(found[0]["rest"].split())
        edits = []
        for match in found:
            simd = re.match(r"\s*simd\b(.*)", match["rest"])
            kept = re.sub(_CLAUSE.format(name="(?:schedule|collapse|if)"), "", simd[1]) if simd else ""
            edits.append((Span(*match.span()), f"#pragma omp simd{kept.rstrip()}\n" if simd else ""))
        yield replaced(text, edits), function_at(text, found[0].start()), clauses


def redo_threads(text: str, value: str) -> Iterator[Change]:
    if _PARALLEL.search(text):
        return
    clauses = re.sub(_CLAUSE.format(name="(?:reduction|private|firstprivate|shared|if|collapse)"), "", value)
    clauses = re.sub(r"\bsimd\b", "", clauses).strip()
    bodies = [each.body for each in functions(text) if each.exported]
    outer = [loop for loop in outer_loops(text) if any(body.holds(loop.span) for body in bodies)]
    inside = [loop for loop in loops(text) if loop not in outer]
    nested = [loop for loop in outer if any(loop.span.holds(each.span) for each in inside)]
    # Every outer loop; only those with loops inside; one alone. A loop whose turns depend on each other comes out wrong, and the judge says so.
    tried: list[list[ForLoop]] = []
    for chosen in (outer, nested, *([loop] for loop in outer)):
        if chosen and chosen not in tried:
            tried.append(chosen)
            line = f"#pragma omp parallel for {clauses}".rstrip()
            yield replaced(text, [_before(text, loop, line) for loop in chosen]), function_at(text, chosen[0].span.start), value


def _reductions(text: str, loop: ForLoop) -> str:
    body = loop.body.of(text)
    own = set(re.findall(r"\b(?:float|double|int|int64_t|auto)\s+(\w+)\s*[=;]", body)) | {loop.variable(text)}
    added = [name for name in dict.fromkeys(_ADDED.findall(body)) if name not in own]
    largest = [name for name in dict.fromkeys(_LARGEST.findall(body)) if name not in own]
    clauses = [f" reduction(+ : {', '.join(added)})"] if added else []
    return "".join([*clauses, *([f" reduction(max : {', '.join(largest)})"] if largest else [])])


def undo_simd(text: str) -> Iterator[Change]:
    found = list(_SIMD.finditer(text))
    if found:
        yield replaced(text, [(Span(*match.span()), "") for match in found]), function_at(text, found[0].start()), ""


def redo_simd(text: str, value: str) -> Iterator[Change]:
    wanted = [loop for loop in inner_loops(text) if not any("omp" in pragma.of(text) for pragma in loop.pragmas)]
    for chosen in (wanted, *([loop] for loop in wanted if len(wanted) > 1)):
        if chosen:
            edits = [_before(text, loop, f"#pragma omp simd{_reductions(text, loop)}") for loop in chosen]
            yield replaced(text, edits), function_at(text, chosen[0].span.start), value


def undo_unroll(text: str) -> Iterator[Change]:
    found = list(_UNROLL.finditer(text))
    if found:
        yield (
            replaced(text, [(Span(*match.span()), "") for match in found]),
            function_at(text, found[0].start()),
            found[0]["count"],
        )


def redo_unroll(text: str, value: str) -> Iterator[Change]:
    # GCC wants `unroll` right before the loop, or before `omp simd`; a loop that is vectorised by pragma is left alone.
    wanted = [loop for loop in inner_loops(text) if not loop.pragmas]
    if wanted:
        edits = [_before(text, loop, f"#pragma GCC unroll {value or 4}") for loop in wanted]
        yield replaced(text, edits), function_at(text, wanted[0].span.start), value


def clause_rule(technique: Technique, name: str) -> Rule:
    """A clause of `omp parallel for`, alone."""
    pattern = re.compile(_CLAUSE.format(name=name))

    def undo(text: str) -> Iterator[Change]:
        for line in _PARALLEL.finditer(text):
            found = pattern.search(line[0])
            if found:
                span = Span(line.start() + found.start(), line.start() + found.end())
                yield replaced(text, [(span, "")]), function_at(text, line.start()), found["inside"].strip()

    def redo(text: str, value: str) -> Iterator[Change]:
        for line in _PARALLEL.finditer(text):
            if not pattern.search(line[0]):
                end = line.end() - 1
                yield replaced(text, [(Span(end, end), f" {name}({value})")]), function_at(text, line.start()), value

    return cpp_rule(technique, undo, redo)


THREADS = cpp_rule(
    Technique(
        "threads",
        "Share the rows of a kernel among the cores: OpenMP on the outermost loop whose turns do not depend on each other.",
        "The outermost `for` of an `extern \"C\"` function: rows, images, heads.",
        "Put `#pragma omp parallel for schedule(static)` right before the outermost loop. Its turns must write to places of their own and "
        "share no sum; scratch arrays are declared inside the loop. Inner loops stay as they are.",
        conditions(
            pipeline="Turns of the outer loop are independent: none reads what another writes.",
            hardware="More than one core; some 50 microseconds of work, or starting the threads costs more than they give.",
        ),
        ("A sum or a scratch array that all turns share is written by several threads: wrong values that change from run to run.",),
        ("openmp", "parallel", "cores"),
    ),
    undo_threads,
    redo_threads,
)  # fmt: skip
SIMD = cpp_rule(
    Technique(
        "simd",
        "Let the innermost loop run in vector lanes, sums included: `omp simd` with the reductions named.",
        "The innermost loop over contiguous elements, above all one that adds up floats, which a compiler may not reorder by itself.",
        "Put `#pragma omp simd` right before the innermost loop, with `reduction(+ : name)` for every sum and `reduction(max : name)` for every "
        "maximum that the loop carries. Elements are read with stride one.",
        conditions(
            data_types="float or double sums may be reordered: results differ in the last digits.",
            layout="The loop's variable is the last index of every array: contiguous reads.",
        ),
        ("A carried value without its reduction clause: lanes overwrite each other, and the result is wrong.",),
        ("simd", "vectorize", "reduction"),
    ),
    undo_simd,
    redo_simd,
)  # fmt: skip
UNROLL = cpp_rule(
    Technique(
        "unroll",
        "Unroll a short inner loop so that several independent operations are under way at once.",
        "An inner loop with a known small number of turns, or with a chain of dependent operations.",
        "Put `#pragma GCC unroll N` right before the loop, N from 2 to 8. Best where the count is a compile-time constant.",
        conditions(hardware="Enough vector registers for N copies of what the loop keeps."),
        ("Too large an N spills registers, and the loop gets slower.",),
        ("unroll", "ilp"),
    ),
    undo_unroll,
    redo_unroll,
)  # fmt: skip
SCHEDULE = clause_rule(
    Technique(
        "schedule",
        "Say how turns are dealt to the threads: static for equal turns, dynamic for uneven ones.",
        "`#pragma omp parallel for` without a schedule, over rows of unequal work.",
        "Add `schedule(static)` where turns cost the same, `schedule(dynamic, N)` where they differ (causal rows, ragged rows), N large enough "
        "that fetching work is cheap.",
        conditions(pipeline="There is an `omp parallel for` whose turns are dealt."),
        ("dynamic with a small chunk on short turns: the threads spend their time fetching work.",),
        ("openmp", "schedule", "load_balance"),
    ),
    "schedule",
)  # fmt: skip
COLLAPSE = clause_rule(
    Technique(
        "collapse",
        "Deal two nested loops to the threads as one, so that a few outer turns still fill all cores.",
        "`#pragma omp parallel for` on a loop with fewer turns than cores and a loop right inside it.",
        "Add `collapse(2)`. The inner loop follows the outer one at once, with bounds that do not depend on the outer variable.",
        conditions(pipeline="Two perfectly nested loops with independent turns."),
        ("Statements between the two loops do not compile; a bound that depends on the outer variable neither.",),
        ("openmp", "collapse", "parallel"),
    ),
    "collapse",
)  # fmt: skip
THRESHOLD = clause_rule(
    Technique(
        "parallel_threshold",
        "Start threads only for inputs that are large enough to pay for it.",
        "`#pragma omp parallel for` in a kernel that is also called with small inputs.",
        "Add `if(COUNT > N)` to the pragma, with the number of elements and some 10,000 to 50,000 for N.",
        conditions(pipeline="There is an `omp parallel for`, and the number of elements is known before it."),
        ("Too large an N leaves cores idle on inputs that would have used them.",),
        ("openmp", "threshold"),
    ),
    "if",
)  # fmt: skip

PRAGMA_RULES: tuple[Rule, ...] = (UNROLL, THRESHOLD, SCHEDULE, COLLAPSE, SIMD, THREADS)
