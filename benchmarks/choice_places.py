"""Where a choice of the sweep applies, as sizes that a person or a model can check: the rows and columns of a launch, the elements, the operands of
a product. A finding's conditions are ranges of these.

They are read from the answer's text and the task's call graph. A place whose sizes cannot be read has none, and no finding speaks of it.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from choice_tasks import CLASS, FUSED, SweepTask

from bottega.compiler.answer_choices import ELEMENTS, OTHER, ROW, ROWS, SWEEP, launch_kind
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.workload import sizes_of, workload_of
from bottega.core.workload import ATTENTION, CONVOLUTION, PRODUCT, Operation

LAUNCHES = (ELEMENTS, ROWS, ROW, SWEEP, OTHER)
HEAVY = (PRODUCT, CONVOLUTION, ATTENTION)
STRIDED = " along another axis"
"""Behind the kind of a launch whose rows are not contiguous."""


@dataclass(frozen=True)
class Place:
    """One place of an answer, with its name in the sweep's changes."""

    change: str
    function: str
    """A library function, or a kind of launch."""
    sizes: dict[str, int]


def places_of(task: SweepTask) -> dict[str, Place]:
    """By the changes' name of the place."""
    names, graph = dict.fromkeys(change.place for change in task.variants), recorded(task.source)
    launches = _launches(task.answer[task.answer.index(CLASS) :], graph)
    operations = workload_of(graph).operations
    found = {name: launches.get(name) if name in LAUNCHES else _of_call(name, operations) for name in names}
    return {name: place for name, place in found.items() if place is not None and place.sizes}


def fused_place(task: SweepTask) -> dict[str, Place]:
    """Of the answer whose heavy operators are kernels of its own: the operation that moves most bytes. By its name in the sweep's table."""
    heavy = [one for one in workload_of(recorded(task.source)).operations if one.kind in HEAVY]
    if not heavy:
        return {}
    largest = max(heavy, key=lambda one: one.sizes["bytes"])
    return {FUSED: Place(FUSED, f"{FUSED} of {largest.kind}", dict(largest.sizes))}


def _of_call(name: str, operations: Sequence[Operation]) -> Place:
    """`linear 512x1024 4096x1024`. Along which axis a call works its shapes do not tell: that is the call graph's."""
    function, *texts = name.split(" ")
    shapes = [tuple(map(int, text.split("x"))) if text else () for text in texts]
    elements = math.prod(shapes[0])
    rows = (one for one in operations if one.operator == function and one.layout and one.sizes["elements"] == elements)
    sizes = next((dict(one.sizes) for one in rows), None)
    return Place(name, function, sizes_of(function, shapes) if sizes is None else sizes)


def _launches(text: str, graph: CallGraph) -> dict[str, Place]:
    """Of several launches of a kind the largest counts."""
    known: dict[str, Any] = {one.name: _tensor(one.shape) for given in graph.inputs for one in given.tensors}
    results = {one.name: _tensor(one.shape) for call in graph.calls for one in call.results}
    found: dict[str, Place] = {}
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    for node in _statements(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            known[name] = results.get(name) or _value(node.value, known)
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript):
            kind = launch_kind(call)
            if kind == ELEMENTS:
                sizes = {"elements": known.get("n")}
            elif kind == ROWS:
                sizes = {"rows": known.get("rows"), "columns": known.get("columns")}
            else:  # a program has one row
                sizes = {"rows": math.prod(_value(call.func.slice, known) or (0,)), "columns": known.get("columns")}
            whole = {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}
            if len(whole) < len(sizes):
                continue
            strided = kind != ELEMENTS and any(word.arg == "J" for word in call.keywords)
            place = Place(kind, kind + STRIDED if strided else kind, whole)
            if kind not in found or math.prod(whole.values()) > math.prod(found[kind].sizes.values()):
                found[kind] = place
    return found


def _statements(tree: ast.Module) -> list[ast.stmt]:
    forward = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    return [node for one in forward for node in one.body]


def _tensor(shape: tuple[int, ...]) -> SimpleNamespace:
    return SimpleNamespace(shape=shape, numel=lambda: math.prod(shape))


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    """Of `x.shape[1]`, `t3.numel() // columns`, `torch.empty((4, 8), …)`; None of what cannot be known."""
    names = {
        "max": max,
        "torch": SimpleNamespace(
            empty=lambda shape, **_: _tensor(tuple(shape)), empty_like=lambda like, **_: _tensor(like.shape)
        ),
        "triton": SimpleNamespace(next_power_of_2=lambda n: 1 << (n - 1).bit_length(), cdiv=lambda n, by: -(-n // by)),
    }
    node = copy.deepcopy(node)
    for each in ast.walk(node):
        if isinstance(each, ast.keyword):
            each.value = ast.Constant(None)  # device and dtype are of no interest
    try:
        return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval"), {"__builtins__": {}, **names}, known)
    except Exception:  # of the answer's many expressions only sizes are wanted
        return None
