"""The shape of loops: tile sizes, the order of two loops, one loop for two sums, an epilogue inside the loop that makes its input."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bottega.lineage.cpp.rewriting import Change, cpp_rule
from bottega.lineage.cpp.text import ForLoop, Span, blanked, function_at, functions, loops, replaced, statements
from bottega.lineage.rule import Rule, Technique, conditions

_CONSTANT = re.compile(r"\bconstexpr\s+(?:int|int32_t|int64_t|long)\s+(?P<name>\w+)\s*=\s*(?P<value>\d+)\s*;")
_SUM = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\+=\s*[^;]+;")
_DECLARATION = re.compile(r"const\s+[\w:]+\s+\w+\s*=\s*[^;]+;")
_INDEX = re.compile(r"\[([^\[\]]+)\]")
_STORE = re.compile(r"(?P<array>\w+)\[(?P<at>[^\[\]]+)\]\s*=\s*(?P<function>\w+)\((?P<inside>[^;]+)\);")
_TAIL = re.compile(r"(?P<array>\w+)\[(?P<at>[^\[\]]+)\]\s*=\s*(?P<function>\w+)\((?P=array)\[(?P=at)\]\);")
_LOCAL = re.compile(r"\b(?:float|double|int|int64_t)\s*\*?\s+(\w+)\s*=")
_HEADERS = re.compile(r"(?:for\s*\([^()]*\)\s*\{?\s*|#pragma[^\n]*\n\s*)+")
_PLAIN_STORE = r"\b{array}\[[^\[\]]+\]\s*=\s*(?P<value>[^;=]+);"


def _steps(text: str) -> list[re.Match[str]]:
    """Constants that a loop steps by; others are sizes of arrays, which a smaller number would overflow."""
    plain = blanked(text)
    return [found for found in _CONSTANT.finditer(plain) if re.search(rf"\+=\s*{found['name']}\b", plain)]


def undo_tile(text: str) -> Iterator[Change]:
    for found in _steps(text):
        if int(found["value"]) > 1:
            span = Span(*found.span("value"))
            yield replaced(text, [(span, "1")]), found["name"], f"{found['name']}={found['value']}"


def redo_tile(text: str, value: str) -> Iterator[Change]:
    name, _, count = value.partition("=")
    found = [each for each in _steps(text) if each["value"] == "1"]
    for each in sorted(found, key=lambda each: each["name"] != name):
        yield replaced(text, [(Span(*each.span("value")), count)]), each["name"], value


def _nested(text: str) -> Iterator[tuple[ForLoop, ForLoop]]:
    """A loop, and the one that is all of its body."""
    every, plain = loops(text), blanked(text)
    for outer in every:
        for inner in every:
            if outer is inner or not outer.body.holds(inner.span):
                continue
            if not plain[outer.body.start : inner.begin].strip() and not plain[inner.span.end : outer.body.end].strip():
                yield outer, inner


def _contiguous(variable: str, body: str) -> tuple[bool, bool]:
    """Whether a variable is the last index somewhere, and whether it is multiplied somewhere."""
    bare = strided = False
    for index in _INDEX.findall(body):
        if re.search(rf"\b{variable}\b", index):
            multiplied = re.search(rf"\b{variable}\b\s*\*|\*\s*{variable}\b|\b{variable}\b[^+\-]*\)\s*\*", index)
            bare, strided = bare or not multiplied, strided or bool(multiplied)
    return bare, strided


def _swapped(text: str, towards_contiguous: bool) -> Iterator[Change]:
    for outer, inner in _nested(text):
        first, second, body = outer.variable(text), inner.variable(text), inner.body.of(text)
        if not first or not second or re.search(rf"\b{first}\b", inner.header.of(text)) or inner.pragmas:
            continue
        (outer_bare, outer_strided), (inner_bare, inner_strided) = _contiguous(first, body), _contiguous(second, body)
        good = outer_bare and inner_strided if towards_contiguous else inner_bare and not inner_strided and outer_strided
        if good:
            edits = [(outer.header, inner.header.of(text)), (inner.header, outer.header.of(text))]
            yield replaced(text, edits), function_at(text, outer.span.start), ""


def undo_one_pass(text: str) -> Iterator[Change]:
    """A loop that makes several sums becomes a loop for each."""
    plain = blanked(text)
    for loop in loops(text):
        inside = list(statements(text, loop.body))
        kinds = [_SUM.fullmatch(span.of(plain).strip()) for span in inside]
        sums = [match["name"] for match in kinds if match]
        helping = [bool(_DECLARATION.fullmatch(span.of(plain).strip())) for span in inside]
        if len(set(sums)) < 2 or not all(match or helper for match, helper in zip(kinds, helping)):
            continue
        indent = text[text.rfind("\n", 0, loop.span.start) + 1 : loop.span.start]
        parts = []
        for name in dict.fromkeys(sums):
            pragmas = "".join(_for_one(pragma.of(text), name, sums) for pragma in loop.pragmas)
            kept = [
                span.of(text).strip()
                for span, match, helper in zip(inside, kinds, helping)
                if helper or (match and match["name"] == name)
            ]
            body = "".join(f"{indent}  {line}\n" for line in kept)
            parts.append(f"{pragmas}{indent}for ({loop.header.of(text)}) {{\n{body}{indent}}}")
        start = loop.begin if loop.pragmas else loop.span.start - len(indent)
        yield (
            replaced(text, [(Span(start, loop.span.end), "\n".join(parts))]),
            function_at(text, loop.span.start),
            " ".join(dict.fromkeys(sums)),
        )


def _for_one(pragma: str, name: str, every: list[str]) -> str:
    """The pragma with a reduction of this sum alone."""
    return re.sub(r"(reduction\(\s*\+\s*:)([^)]*)\)", lambda found: f"{found[1]} {name})" if name in found[2] else "", pragma)


def redo_one_pass(text: str, value: str) -> Iterator[Change]:
    """Two loops with the same header, one right behind the other, become one."""
    every, plain = loops(text), blanked(text)
    for first in every:
        for second in every:
            if second.span.start < first.span.end or plain[first.span.end : second.begin].strip():
                continue
            if " ".join(first.header.of(text).split()) != " ".join(second.header.of(text).split()):
                continue
            lines = [span.of(text).strip() for loop in (first, second) for span in statements(text, loop.body)]
            indent = text[text.rfind("\n", 0, first.span.start) + 1 : first.span.start]
            body = "".join(f"{indent}  {line}\n" for line in dict.fromkeys(lines))
            pragmas = _joined([pragma.of(text) for pragma in first.pragmas], [pragma.of(text) for pragma in second.pragmas])
            start = first.begin if first.pragmas else first.span.start - len(indent)
            new = f"{pragmas}{indent}for ({first.header.of(text)}) {{\n{body}{indent}}}"
            yield replaced(text, [(Span(start, second.span.end), new)]), function_at(text, first.span.start), value


def _joined(first: list[str], second: list[str]) -> str:
    """One set of pragmas: reductions of both."""
    sums = re.findall(r"reduction\(\s*\+\s*:([^)]*)\)", "".join(second))
    text = "".join(first)
    return re.sub(r"(reduction\(\s*\+\s*:[^)]*)\)", rf"\1, {', '.join(sums)})", text, count=1) if sums else text


def undo_epilogue(text: str) -> Iterator[Change]:
    """A function of the result that is applied where it is stored goes into a loop nest of its own behind the first one."""
    plain, every = blanked(text), loops(text)
    helpers = {each.name for each in functions(text) if not each.exported}
    for found in _STORE.finditer(plain):
        around = [loop for loop in every if loop.body.start <= found.start() < loop.body.end]
        named = [loop for loop in around if loop.variable(text) and re.search(rf"\b{loop.variable(text)}\b", found["at"])]
        inside = [each for each in functions(text) if each.exported and each.body.start <= found.start() < each.body.end]
        written = inside and re.search(rf"\b{found['array']}\b", inside[0].arguments.of(text))
        apart = (
            " ".join(found["inside"].split()) == f"{found['array']}[{' '.join(found['at'].split())}]"
        )  # a nest of its own already
        if found["function"] not in helpers or not named or not written or apart:
            continue
        outer = named[0]
        wanted = " ".join([found["at"], *(loop.header.of(text) for loop in named)])
        own = {loop.variable(text) for loop in named}
        local = set(_LOCAL.findall(plain[outer.span.start : found.start()])) - own
        if any(re.search(rf"\b{name}\b", wanted) for name in local):
            continue
        indent = text[text.rfind("\n", 0, outer.span.start) + 1 : outer.span.start]
        nest = "".join(f"\n{indent}{'  ' * depth}for ({loop.header.of(text)})" for depth, loop in enumerate(named))
        place = f"{found['array']}[{found['at']}]"
        tail = f"{nest}\n{indent}{'  ' * len(named)}{place} = {found['function']}({place});"
        store = (Span(found.start("function"), found.end()), f"{text[found.start('inside') : found.end('inside')]};")
        edits = [store, (Span(outer.span.end, outer.span.end), tail)]
        yield replaced(text, edits), function_at(text, found.start()), found["function"]


def redo_epilogue(text: str, value: str) -> Iterator[Change]:
    plain, every = blanked(text), loops(text)
    for found in _TAIL.finditer(plain):
        around = [loop for loop in every if loop.span.start <= found.start() < loop.span.end]
        alone = [loop for loop in around if _HEADERS.fullmatch(plain[loop.span.start : found.start()])]
        if not alone:
            continue
        nest = alone[0]
        stores = [
            store
            for store in re.finditer(_PLAIN_STORE.format(array=found["array"]), plain)
            if store.end() <= nest.begin and any(loop.span.start <= store.start() < loop.span.end for loop in every)
        ]
        if stores:
            inside = Span(*stores[-1].span("value"))
            edits = [(inside, f"{found['function']}({inside.of(text)})"), (Span(nest.begin, nest.span.end), "")]
            yield replaced(text, edits), function_at(text, nest.span.start), value


TILE = cpp_rule(
    Technique(
        "tile",
        "Work on a tile of several rows or columns at once, so that what is loaded is used several times from registers.",
        "Loops that go over rows or columns in steps of a compile-time constant.",
        "Make the step a `constexpr` and give the inner loops that constant as their bound, so that the compiler keeps a tile of partial results in "
        "registers. Handle the rest of the rows by the same code with a minimum, or by a loop behind it.",
        conditions(
            storage="The tile's partial results fit into vector registers: 4 to 32 of them.",
            pipeline="Rows or columns of the tile use the same loaded values.",
        ),
        ("A tile beyond the registers spills to the stack, and is slower than none.", "Counts that the tile does not divide need a tail."),
        ("tiling", "blocking", "registers"),
    ),
    undo_tile,
    redo_tile,
)  # fmt: skip
LOOP_ORDER = cpp_rule(
    Technique(
        "loop_order",
        "Put the loop over contiguous elements innermost, so that memory is read line by line and lanes fill.",
        "Nested loops whose innermost variable is multiplied by a stride in an index.",
        "Exchange the two loops: the variable that is the last index of most arrays goes innermost. Sums that were scalars become arrays, or are "
        "added to the output in place.",
        conditions(layout="One variable has stride one in all arrays of the inner loop.", pipeline="The loops' turns may be exchanged."),
        ("Under `omp parallel for`, a sum's loop moved outside makes threads add to the same element.",),
        ("loop_interchange", "stride", "locality"),
    ),
    lambda text: _swapped(text, towards_contiguous=False),
    lambda text, value: _swapped(text, towards_contiguous=True),
)  # fmt: skip
ONE_PASS = cpp_rule(
    Technique(
        "one_pass",
        "Make several sums over the same elements in one loop: each element is read once.",
        "Neighbouring loops with the same header that read the same array: moments, a sum and a sum of squares.",
        "Write one loop that reads the element into a local value and adds to all sums. Name all of them in the reduction clause.",
        conditions(
            data_types="Variance from sums of squares loses digits where the mean is large: shift by the first element, or sum in double.",
            pipeline="No sum needs the final value of another.",
        ),
        ("E[x^2] - E[x]^2 in fp32 cancels for inputs with a large offset, and the judge tries such inputs.",),
        ("fusion", "one_pass", "statistics"),
    ),
    undo_one_pass,
    redo_one_pass,
)  # fmt: skip
EPILOGUE = cpp_rule(
    Technique(
        "epilogue_fusion",
        "Apply the function of a result where it is stored, instead of in a second pass over memory.",
        "A loop nest that reads an array which the nest before it wrote, and applies a function to every element.",
        "Wrap the stored value: `y[i] = act(sum);`, and delete the second nest. The value never leaves its register in between.",
        conditions(pipeline="The function needs that one element only, and nothing reads the unwrapped values."),
        ("A sum that is not finished when it is stored (the loop over k is outside) would be passed through the function too early.",),
        ("fusion", "epilogue", "activation"),
    ),
    undo_epilogue,
    redo_epilogue,
)  # fmt: skip

LOOP_RULES: tuple[Rule, ...] = (TILE, EPILOGUE, ONE_PASS, LOOP_ORDER)
