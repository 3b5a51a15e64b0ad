"""The choices of an answer as small changes of its text: keyword arguments of library calls, blocks and warps of its own kernels' launches.

A choice is a token or two, so that a model can write it and a measurement can tell whether it pays. The operands' sizes come from the task's
call graph; what is not named there keeps the rule's choice.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bottega.compiler.callgraph import CallGraph
from bottega.compiler.library.choices import BLOCKS, FUNCTIONS, CallOperands, Shape, setting

Span = tuple[int, int, str]
"""From, to, and the text that replaces it."""
ELEMENTS, ROWS, ROW, SWEEP, OTHER = "elements", "rows", "row", "sweep", "other"
MOST = {ELEMENTS: 4, OTHER: 3}
"""Changes of a kind of launch of which few differ much, where an answer has other places too."""
_HEIGHT = re.compile(r"max\(1, (\d+) // ")
_PARAMETERS = {
    "group_norm": ("input", "num_groups"), "softmax": ("input", "dim"), "log_softmax": ("input", "dim"), "cumsum": ("input", "dim"),
    "cumprod": ("input", "dim"), "argmax": ("input", "dim"), "argmin": ("input", "dim"),
    **{f"conv{dims}d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups") for dims in (1, 2, 3)},
}  # fmt: skip
"""Names of positional arguments, for functions whose sensible choices depend on them."""


@dataclass(frozen=True)
class AnswerChange:
    """One choice at one place of an answer, or at all places that are alike."""

    place: str
    """A function with its operands' shapes, or a kind of launch; a variant has at most one change of a place."""
    label: str
    """`tile=(128, 64, 32), warps=4`."""
    spans: tuple[Span, ...]


def changed(answer: str, changes: Iterable[AnswerChange]) -> str:
    """The answer with these changes, of different places each."""
    spans = sorted((span for change in changes for span in change.spans), reverse=True)
    for start, end, text in spans:
        answer = answer[:start] + text + answer[end:]
    return answer


def changes_of(answer: str, graph: CallGraph) -> dict[str, list[AnswerChange]]:
    """By place, all changes, the most promising first. Empty where the answer does not parse."""
    try:
        tree = ast.parse(answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    text = _Text(answer)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    launches = [call for call in calls if isinstance(call.func, ast.Subscript) and isinstance(call.func.value, ast.Name)]
    library = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS]
    found: dict[str, list[AnswerChange]] = {}
    for place, alike in _by_operands(tree, library, graph).items():
        function = place.split(" ")[0]
        values = [one.text for one in FUNCTIONS[function].settings(alike[0][1])]
        theirs = any("own=True" in value for value in values)
        if not theirs and len(launches) + len(library) > len(alike):  # something stays ours
            values.insert(1, "own=False")
        found[place] = [
            AnswerChange(
                place,
                value,
                tuple(
                    span
                    for call, _ in alike
                    for span in (text.added(call, value), *text.removed(call, FUNCTIONS[function].names))
                ),
            )
            for value in dict.fromkeys(values)
        ]
    for kind, group in itertools.groupby(sorted(launches, key=launch_kind), key=launch_kind):
        found[kind] = list(_launch_changes(kind, list(group), text))
    return {place: changes for place, changes in found.items() if changes}


def variants(changes: dict[str, list[AnswerChange]], most: int) -> list[AnswerChange]:
    """At most so many changes, of all places in turn."""
    places = [some[: MOST.get(place, most)] if len(changes) > 1 else some for place, some in changes.items()]
    rounds = itertools.zip_longest(*places)
    return list(itertools.islice((change for one in rounds for change in one if change is not None), most))


@dataclass(frozen=True)
class _Text:
    answer: str

    def at(self, line: int, column: int) -> int:
        """Columns are counted in bytes."""
        lines = self.answer.split("\n")
        return sum(len(one) + 1 for one in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or 0, node.end_col_offset or 0)

    def added(self, call: ast.Call, value: str) -> Span:
        """Further keyword arguments, behind the last."""
        end = self.span(call)[1] - 1
        before = self.answer[:end].rstrip()
        comma = "" if before.endswith((",", "(")) else ", "
        at = len(before)
        return at, at, f"{comma or ' '}{value}"

    def removed(self, call: ast.Call, names: Sequence[str]) -> Iterator[Span]:
        """Keyword arguments of these names, each with the comma before it: what an answer has chosen makes room for another choice."""
        ends = sorted(self.span(node)[1] for node in (*call.args, *(word.value for word in call.keywords)))
        for word in call.keywords:
            end = self.span(word.value)[1]
            if word.arg in (*names, "own") and end != ends[0]:
                yield ends[ends.index(end) - 1], end, ""

    def replaced(self, node: ast.expr, value: object) -> Span:
        return (*self.span(node), str(value))


def _by_operands(
    tree: ast.Module, calls: Sequence[ast.Call], graph: CallGraph
) -> dict[str, list[tuple[ast.Call, CallOperands]]]:
    """Calls of known operands, those of one function and of the same shapes together."""
    tensors = {one.name: (one.shape, one.dtype) for given in graph.inputs for one in given.tensors}
    tensors |= {one.name: (one.shape, one.dtype) for one in graph.weights}
    tensors |= {one.name: (one.shape, one.dtype) for call in graph.calls for one in call.results}
    results = {
        id(node.value): node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found: dict[str, list[tuple[ast.Call, CallOperands]]] = {}
    for call in calls:
        name = ast.unparse(call.func)
        parameters = _PARAMETERS.get(name, ())
        given = {parameters[place] if place < len(parameters) else str(place): value for place, value in enumerate(call.args)}
        given |= {word.arg: word.value for word in call.keywords if word.arg}
        known = [tensors[text] for value in given.values() if (text := ast.unparse(value)) in tensors]
        if not known or ast.unparse(call.args[0] if call.args else call) not in tensors:
            continue
        result: list[Shape] = [tensors[results[id(call)]][0]] if results.get(id(call)) in tensors else []
        if name.startswith("conv") and not result:
            continue
        options: dict[str, object] = {key: value.value for key, value in given.items() if isinstance(value, ast.Constant)}
        options |= {
            key: -value.operand.value
            for key, value in given.items()
            if isinstance(value, ast.UnaryOp)
            and isinstance(value.operand, ast.Constant)
            and isinstance(value.operand.value, int)
        }
        operands = CallOperands((*(shape for shape, _ in known), *result), known[0][1], options)
        shapes = " ".join("x".join(map(str, shape)) for shape, _ in known)
        found.setdefault(f"{name} {shapes}", []).append((call, operands))
    return found


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {word.arg: word.value for word in call.keywords if word.arg}


def launch_kind(launch: ast.Call) -> str:
    """What a launch's numbers mean: elements of a block, rows of a program, one row of a program, or a row that is swept; of others the
    warps alone are known."""
    assert isinstance(launch.func, ast.Subscript)
    words, grid = _keywords(launch), ast.unparse(launch.func.slice)
    if {"ROWS", "COLUMNS"} <= words.keys() and ast.unparse(words["ROWS"]) == "height":
        return ROWS
    block = words.get("BLOCK")
    if isinstance(block, ast.Constant) and grid == f"(triton.cdiv(n, {ast.unparse(block)}),)":
        return ELEMENTS
    if block is not None and ast.unparse(block).startswith("triton.next_power_of_2(") and "cdiv" not in grid:
        return ROW
    if isinstance(block, ast.Constant) and ("shape" in grid or "numel" in grid) and "cdiv" not in grid:
        return SWEEP
    return OTHER


def _launch_changes(kind: str, launches: Sequence[ast.Call], text: _Text) -> Iterator[AnswerChange]:
    if kind == ELEMENTS:
        for one in BLOCKS:
            values = dict(one.values)
            yield _change(
                kind,
                one.text,
                (_elements(launch, int(str(values["block"])), text) for launch in launches),
                launches,
                values,
                text,
            )
    if kind == SWEEP:
        for block, warps in ((2048, 8), (8192, 16), (4096, 4), (1024, 4), (8192, 8), (4096, 16), (2048, 4)):
            spans = ([text.replaced(_keywords(launch)["BLOCK"], block)] for launch in launches)
            yield _change(kind, f"block={block}, warps={warps}", spans, launches, {"warps": warps}, text)
    if kind in (ROW, OTHER):
        for warps in (8, 2, 16, 4, 1, 32) if kind == ROW else (8, 4, 16, 2):
            yield _change(kind, f"warps={warps}", ([] for _ in launches), launches, {"warps": warps}, text)
    if kind == ROWS:
        for elements, warps in (
            (4096, 8),
            (1024, 4),
            (2048, 8),
            (1024, 2),
            (8192, 8),
            (4096, 4),
            (512, 1),
            (2048, 2),
            (8192, 16),
            (4096, 16),
        ):
            heights = [_height(launch, elements, text) for launch in launches]
            spans = ([height] for height in dict.fromkeys(heights) if height is not None)
            if None not in heights:
                yield _change(kind, setting(rows_of=elements, warps=warps).text, spans, launches, {"warps": warps}, text)


def _change(
    kind: str,
    label: str,
    spans: Iterable[Sequence[Span]],
    launches: Sequence[ast.Call],
    values: Mapping[str, object],
    text: _Text,
) -> AnswerChange:
    """With the warps of every launch."""
    given = [_keywords(launch).get("num_warps") for launch in launches]
    warps = [
        text.replaced(old, values["warps"]) if old is not None else text.added(launch, f"num_warps={values['warps']}")
        for launch, old in zip(launches, given)
    ]
    return AnswerChange(kind, label, (*(span for some in spans for span in some), *warps))


def _elements(launch: ast.Call, block: int, text: _Text) -> list[Span]:
    assert isinstance(launch.func, ast.Subscript)
    old = _keywords(launch)["BLOCK"]
    assert isinstance(old, ast.Constant)
    numbers = [node for node in ast.walk(launch.func.slice) if isinstance(node, ast.Constant) and node.value == old.value]
    return [text.replaced(node, block) for node in (*numbers, old)]


def _height(launch: ast.Call, elements: int, text: _Text) -> Span | None:
    """The number in the line before a launch that says how many rows a program has: `height = max(1, 2048 // width)`."""
    found = list(_HEIGHT.finditer(text.answer, 0, text.span(launch)[0]))
    return (*found[-1].span(1), str(elements)) if found else None
