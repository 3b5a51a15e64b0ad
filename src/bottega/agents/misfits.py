"""Where an answer does not fit the sizes that the sketch tells: a dimension that is not there, one number read as many, a sum that nobody sums.

All of it is read off the text and the sketch, nothing is run. Most of these are certain to fail, some only look so; an answer without is the better
one to judge. Only answers that use the sketch's names can be looked at this way; of others nothing is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from bottega.agents.code import parsed

Shape = tuple[int, ...]

_SIZE = r"(?:scalar|\d+(?:x\d+)*)"
_GIVEN = re.compile(rf"^([A-Za-z_][\w.\[\]]*) ({_SIZE})(?: \w+)?$")
_CALL = re.compile(rf"^(t\d+\w*(?:, t\d+\w*)*) = (\w+)\((.*)\) ({_SIZE}.*)$")
_TOLD = re.compile(r"^\s*# (t\d\w*(?:, t\d\w*)*) = (\w+)\(", re.MULTILINE)
_NAME = re.compile(r"t\d+(?:_\d+)?$")
_SUMS = re.compile(r"tl\.(?:sum|max|min|reduce|xor_sum|argmax|argmin|cumsum|associative_scan)\(|_parts_ptr")
_REDUCING = frozenset(
    (
        "sum",
        "mean",
        "amax",
        "amin",
        "max",
        "min",
        "prod",
        "logsumexp",
        "norm",
        "linalg_norm",
        "linalg_vector_norm",
        "std",
        "var",
    )
)
_ALIKE = {"amax": "max", "amin": "min"}


@dataclass
class _Sketch:
    """What the sketch tells of sizes and calls."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    """For each result the call, with a mark for every tensor that it reads."""
    reducing: set[str] = field(default_factory=set)
    """Results, as they stand before the call, that have fewer elements than what they are made of."""
    returned: ast.expr | None = None


def misfits(source: str, sketch: str) -> tuple[str, ...]:
    """One sentence for each; nothing where the file or the sketch cannot be read."""
    tree = parsed(source)
    model = (
        next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None) if tree else None
    )
    forwards = [node for node in model.body if isinstance(node, ast.FunctionDef)] if model else []
    if tree is None or len(forwards) != 1 or forwards[0].name != "forward":
        return ()
    told = _read(sketch)
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
    try:
        found = [*_of_forward(forwards[0], told, kernels), *_of_kernels(source, kernels, told)]
    except RecursionError:  # nested deeper than this can look
        return ()
    return tuple(dict.fromkeys(found))


def _read(sketch: str) -> _Sketch:
    found = _Sketch()
    for line in sketch.splitlines():
        if match := _GIVEN.match(line):
            found.shapes[match[1]] = _shape(match[2])
        elif match := _CALL.match(line):
            sizes = re.findall(rf"(?<!\S){_SIZE}(?!\S)", match[4])
            for name, size in zip(match[1].split(", "), sizes):
                found.shapes[name] = _shape(size)
            call = re.sub(r"(?<![\w.'\"])(?:self\.[\w.\[\]]+|[A-Za-z_]\w*)(?![\w(=])", "_", match[3])
            operator = _ALIKE.get(match[2], match[2])
            found.calls |= dict.fromkeys(match[1].split(", "), f"{operator}({call})")
            operands = [name for name in re.findall(r"[A-Za-z_]\w*", match[3]) if name in found.shapes]
            largest = max((prod(found.shapes[name]) for name in operands), default=0)
            if match[2] in _REDUCING and sizes and largest > prod(_shape(sizes[0])):
                found.reducing.add(match[1])
        elif line.startswith("return ") and (tree := parsed(f"_ = {line[7:]}")):
            found.returned = tree.body[0].value if isinstance(tree.body[0], ast.Assign) else None
    return found


def _shape(text: str) -> Shape:
    return () if text == "scalar" else tuple(map(int, text.split("x")))


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).startswith("triton.jit") for one in node.decorator_list)


def _of_forward(forward: ast.FunctionDef, told: _Sketch, kernels: dict[str, ast.FunctionDef]) -> Iterator[str]:
    known = {name: shape for name, shape in told.shapes.items() if not _NAME.match(name)}
    made: dict[str, str] = {}
    """Results that a launch makes, with the kernel."""
    for statement in forward.body:
        yield from _dimensions(statement, known)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            room = _room(value)
            if name in told.shapes and _NAME.match(name):
                known[name] = told.shapes[name]
                if _is_size(value):
                    yield f"{name} is a size and not what the sketch computes"
                if room is not None and prod(room) != prod(told.shapes[name]):
                    yield f"{name} has room for {prod(room)} elements and not for {prod(told.shapes[name])}"
                if room is not None:
                    made[name] = ""
            else:
                known.pop(name, None)
                if room is not None:
                    known[name] = room
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            kernel = _launched(statement.value, kernels)
            if kernel is None:
                continue
            yield from _loads(kernel, statement.value, known)
            yield from _other_work(kernel, statement.value, made, told)
        elif isinstance(statement, ast.Return) and told.returned is not None and statement.value is not None:
            wanted, given = _count(told.returned), _count(statement.value)
            if None not in (wanted, given) and wanted != given:
                yield f"what is returned is not what the sketch returns: {ast.unparse(told.returned)}"


def _dimensions(statement: ast.stmt, known: dict[str, Shape]) -> Iterator[str]:
    """`x.shape[3]` of a tensor with three dimensions."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute) or node.value.attr != "shape":
            continue
        tensor, place = ast.unparse(node.value.value), node.slice
        if isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.USub) and isinstance(place.operand, ast.Constant):
            continue
        if (
            tensor in known
            and isinstance(place, ast.Constant)
            and isinstance(place.value, int)
            and place.value >= len(known[tensor])
        ):
            yield f"{tensor} has no dimension {place.value}"


def _room(value: ast.expr) -> Shape | None:
    """The shape of `torch.empty((…), …)` where it is written in numbers."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) not in ("torch.empty", "torch.zeros") or not value.args:
        return None
    sizes = value.args[0]
    if not isinstance(sizes, ast.Tuple) or not all(
        isinstance(one, ast.Constant) and isinstance(one.value, int) for one in sizes.elts
    ):
        return None
    return tuple(int(ast.unparse(one)) for one in sizes.elts)


def _is_size(value: ast.expr) -> bool:
    """A constant or something off a shape."""
    inner = value.value if isinstance(value, ast.Subscript) else value
    return isinstance(value, ast.Constant) or (isinstance(inner, ast.Attribute) and inner.attr == "shape")


def _launched(call: ast.Call, kernels: dict[str, ast.FunctionDef]) -> ast.FunctionDef | None:
    function = call.func
    return (
        kernels.get(function.value.id) if isinstance(function, ast.Subscript) and isinstance(function.value, ast.Name) else None
    )


def _loads(kernel: ast.FunctionDef, launch: ast.Call, known: dict[str, Shape]) -> Iterator[str]:
    """One number read at many places, or the first of many read for all."""
    tensors = {
        parameter.arg: known[text]
        for parameter, given in zip(kernel.args.args, launch.args)
        if (text := ast.unparse(given)) in known
    }
    for node in ast.walk(kernel):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "tl.load" or not node.args:
            continue
        place = node.args[0]
        names = {one.id for one in ast.walk(place) if isinstance(one, ast.Name)}
        for pointer in names & tensors.keys():
            elements = prod(tensors[pointer])
            if isinstance(place, ast.Name) and elements > 1:
                yield f"{kernel.name} reads the first of the {elements} elements of {pointer.removesuffix('_ptr')} for all"
            elif not isinstance(place, ast.Name) and elements == 1:
                yield f"{kernel.name} reads {pointer.removesuffix('_ptr')}, which is one number, as many"


def _other_work(kernel: ast.FunctionDef, launch: ast.Call, made: dict[str, str], told: _Sketch) -> Iterator[str]:
    """A kernel that is launched again for a result that another call makes."""
    own = re.match(r"(t\d+(?:_\d+)?)_kernel$", kernel.name)
    results = [ast.unparse(given) for given in launch.args if ast.unparse(given) in made]
    for result in results[-1:]:
        made[result] = kernel.name
        if own and own[1] in told.calls and result in told.calls and told.calls[own[1]] != told.calls[result]:
            yield f"{kernel.name} makes {told.calls[own[1]].partition('(')[0]}, and {result} is {told.calls[result].partition('(')[0]}"


def _count(value: ast.expr) -> int | None:
    """How many results are returned, in a dictionary less than none; None where that cannot be seen."""
    if isinstance(value, ast.Tuple | ast.List):
        return len(value.elts)
    if isinstance(value, ast.Dict):
        return -len(value.keys)
    return None if isinstance(value, ast.Call) and not isinstance(value.func, ast.Attribute) else 1


def _of_kernels(source: str, kernels: dict[str, ast.FunctionDef], told: _Sketch) -> Iterator[str]:
    """Kernels that say they reduce, and do not."""
    lines = source.splitlines()
    for name, node in kernels.items():
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        reducing = [operator for result, operator in _TOLD.findall(text) if result in told.reducing]
        if reducing and not _SUMS.search(text):
            yield f"{name} computes {reducing[0]} and reduces nothing"
