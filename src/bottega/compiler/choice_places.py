"""Where a choice of an answer applies, as sizes: the rows and columns of a launch, its elements, the operands of a product.

They are read from the answer's text and the task's call graph, and nothing of the text is run: the text may be anybody's. A place whose sizes
cannot be read has none.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bottega.compiler.answer_choices import ELEMENTS, OTHER, ROW, ROWS, SWEEP, launch_kind
from bottega.compiler.callgraph import CallGraph, Shape
from bottega.compiler.workload import sizes_of, workload_of
from bottega.core.workload import Operation

LAUNCHES = (ELEMENTS, ROWS, ROW, SWEEP, OTHER)
STRIDED = " along another axis"
"""Behind the kind of a launch whose rows are not contiguous."""
LARGEST = 2**62
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
Value = int | Shape
"""A number, or the shape of a tensor."""


@dataclass(frozen=True)
class ChoicePlace:
    """One place of an answer, with its name among the answer's changes."""

    change: str
    function: str
    """A library function, or a kind of launch."""
    sizes: dict[str, int]


def places_of(answer: str, names: Iterable[str], graph: CallGraph) -> dict[str, ChoicePlace]:
    """By the names of the answer's changes; those without sizes are left out."""
    operations = workload_of(graph).operations
    launches = _launches(answer, graph)
    found = {name: launches.get(name) if name in LAUNCHES else _of_call(name, operations) for name in dict.fromkeys(names)}
    return {name: place for name, place in found.items() if place is not None and place.sizes}


def _of_call(name: str, operations: Sequence[Operation]) -> ChoicePlace | None:
    """`linear 512x1024 4096x1024`. Along which axis a call works its shapes do not tell: that is the call graph's."""
    function, *texts = name.split(" ")
    if not texts:  # a constant of the text
        return None
    shapes = [tuple(map(int, text.split("x"))) if text else () for text in texts]
    elements = math.prod(shapes[0])
    rows = (one for one in operations if one.operator == function and one.layout and one.sizes["elements"] == elements)
    sizes = next((dict(one.sizes) for one in rows), None)
    return ChoicePlace(name, function, sizes_of(function, shapes) if sizes is None else sizes)


def _launches(text: str, graph: CallGraph) -> dict[str, ChoicePlace]:
    """Of several launches of a kind the largest counts."""
    known: dict[str, Value] = {one.name: one.shape for given in graph.inputs for one in given.tensors}
    results: dict[str, Value] = {one.name: one.shape for call in graph.calls for one in call.results}
    found: dict[str, ChoicePlace] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    for node in _statements(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            value = results.get(name) or _value(node.value, known)
            known.pop(name, None)
            if value is not None:
                known[name] = value
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript):
            place = _of_launch(call, call.func.slice, known)
            if place is not None and (
                place.change not in found or math.prod(place.sizes.values()) > math.prod(found[place.change].sizes.values())
            ):
                found[place.change] = place
    return found


def _of_launch(call: ast.Call, grid: ast.expr, known: dict[str, Value]) -> ChoicePlace | None:
    kind = launch_kind(call)
    if kind == ELEMENTS:
        sizes = {"elements": known.get("n")}
    elif kind == ROWS:
        sizes = {"rows": known.get("rows"), "columns": known.get("columns")}
    else:  # a program has one row
        programs = _value(grid, known)
        sizes = {"rows": math.prod(programs) if isinstance(programs, tuple) else None, "columns": known.get("columns")}
    whole = {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}
    if len(whole) < len(sizes):
        return None
    strided = kind != ELEMENTS and any(word.arg == "J" for word in call.keywords)
    return ChoicePlace(kind, kind + STRIDED if strided else kind, whole)


def _statements(tree: ast.Module) -> list[ast.stmt]:
    forward = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    return [node for one in forward for node in one.body]


def _value(node: ast.expr, known: dict[str, Value]) -> Value | None:
    """Of `x.shape[1]`, `t3.numel() // columns`, `torch.empty((4, 8), …)`; None of what cannot be known."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and abs(value) < LARGEST:
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=tensor, attr="shape"):
            return _shape(tensor, known)
        case ast.Subscript(value=shape, slice=place):
            sizes, at = _value(shape, known), _value(place, known)
            return sizes[at] if isinstance(sizes, tuple) and isinstance(at, int) and -len(sizes) <= at < len(sizes) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = _value(operand, known)
            return -number if isinstance(number, int) else None
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left, known), _value(right, known))
        case ast.Tuple(elts=parts):
            numbers = list(_numbers(parts, known))
            return tuple(numbers) if len(numbers) == len(parts) else None
        case ast.Call(func=ast.Attribute(value=tensor, attr="numel"), args=[]):
            of = _shape(tensor, known)
            return None if of is None else math.prod(of)
        case ast.Call(func=function, args=arguments):
            return _called(ast.unparse(function), arguments, known)
    return None


def _computed(op: ast.operator, left: Value | None, right: Value | None) -> int | None:
    arithmetic = _ARITHMETIC.get(type(op))
    if arithmetic is None or not isinstance(left, int) or not isinstance(right, int):
        return None
    if isinstance(op, ast.FloorDiv) and not right:
        return None
    found = int(arithmetic(left, right))
    return found if abs(found) < LARGEST else None


def _called(function: str, arguments: Sequence[ast.expr], known: dict[str, Value]) -> Value | None:
    if function == "torch.empty_like" and arguments:
        return _shape(arguments[0], known)
    if function == "torch.empty" and arguments:
        shape = _value(arguments[0], known)
        return shape if isinstance(shape, tuple) else None
    numbers = list(_numbers(arguments, known))
    if len(numbers) != len(arguments) or not numbers:
        return None
    if function == "max":
        return max(numbers)
    if function == "triton.next_power_of_2" and len(numbers) == 1:
        return 1 << max(0, numbers[0] - 1).bit_length()
    if function == "triton.cdiv" and len(numbers) == 2 and numbers[1]:
        return -(-numbers[0] // numbers[1])
    return None


def _numbers(nodes: Sequence[ast.expr], known: dict[str, Value]) -> Iterator[int]:
    for node in nodes:
        value = _value(node, known)
        if isinstance(value, int):
            yield value


def _shape(tensor: ast.expr, known: dict[str, Value]) -> Shape | None:
    value = known.get(tensor.id) if isinstance(tensor, ast.Name) else None
    return value if isinstance(value, tuple) else None
