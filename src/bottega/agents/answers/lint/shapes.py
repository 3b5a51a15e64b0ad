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

from bottega.compiler.callgraph_text import Shape, is_result, read_sketch
from bottega.compiler.source.text import parsed

_TOLD = re.compile(r"^[ \t]*# (t\d\w*(?:, t\d\w*)*) = (\w+)\(", re.MULTILINE)
_SUMS = re.compile(
    r"\b(?:sum|max|min|reduce|xor_sum|argmax|argmin|cumsum|associative_scan|dot|maximum|minimum)\(|atomic_|_parts_ptr|\+=|\*="
)
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
    try:
        kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
        found = [*_of_forward(forwards[0], told, kernels), *_of_kernels(source, kernels, told)]
    except (RecursionError, ValueError):  # nested deeper than this can look, or a number that Python does not print
        return ()
    return tuple(dict.fromkeys(found))


def _read(sketch: str) -> _Sketch:
    read = read_sketch(sketch)
    found = _Sketch(dict(read.given))
    for call in read.calls:
        if call.size is None:
            continue
        found.shapes |= zip(call.names, call.sizes)
        marked = re.sub(r"(?<![\w.'\"])(?:self\.[\w.\[\]]+|[A-Za-z_]\w*)(?![\w(=])", "_", call.arguments)
        operator = _ALIKE.get(call.operator, call.operator)
        found.calls |= dict.fromkeys(call.names, f"{operator}({marked})")
        largest = max((prod(found.shapes[word]) for word in call.words if word in found.shapes), default=0)
        if call.operator in _REDUCING and largest > prod(call.size):
            found.reducing.add(", ".join(call.names))
    if tree := parsed(f"_ = {read.returned}"):
        found.returned = tree.body[0].value if isinstance(tree.body[0], ast.Assign) else None
    return found


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).startswith("triton.jit") for one in node.decorator_list)


def _of_forward(forward: ast.FunctionDef, told: _Sketch, kernels: dict[str, ast.FunctionDef]) -> Iterator[str]:
    known = {name: shape for name, shape in told.shapes.items() if not is_result(name)}
    read: dict[str, list[tuple[str, bool]]] = {}
    waiting: set[str] = set()
    """Results that have room and that no launch has made."""
    for statement in forward.body:
        yield from _dimensions(statement, known)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            room = _room(value)
            if name in told.shapes and is_result(name):
                known[name] = told.shapes[name]
                if _is_size(value):
                    yield f"{name} is a size and not what the sketch computes"
                if room is not None and prod(room) != prod(told.shapes[name]):
                    yield f"{name} has room for {prod(room)} elements and not for {prod(told.shapes[name])}"
                if room is not None:
                    waiting.add(name)
            else:
                known.pop(name, None)
                if room is not None:
                    known[name] = room
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            kernel = _launched(statement.value, kernels)
            if kernel is None:
                continue
            tensors = _tensors(kernel, statement.value, known)
            yield from _loads(kernel, tensors, read)
            yield from _lookups(kernel, tensors)
            yield from _short(kernel, tensors)
            yield from _other_work(kernel, statement.value, waiting, told)
        elif isinstance(statement, ast.Return) and told.returned is not None and statement.value is not None:
            wanted, given = _count(told.returned), _count(statement.value)
            if None not in (wanted, given) and wanted != given:
                yield f"what is returned is not what the sketch returns: {ast.unparse(told.returned)}"


def _dimensions(statement: ast.stmt, known: dict[str, Shape]) -> Iterator[str]:
    """`x.shape[3]` or `x[:, :, :, 0]` of a tensor with three dimensions."""
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Tuple)
            and (tensor := ast.unparse(node.value)) in known
        ):
            places = [one for one in node.slice.elts if not (isinstance(one, ast.Constant) and one.value in (None, ...))]
            if len(places) > len(known[tensor]):
                yield f"{tensor} has no dimension {len(places) - 1}"
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
    sizes = value.args[0].elts if isinstance(value.args[0], ast.Tuple) else None
    found = [one.value for one in sizes or () if isinstance(one, ast.Constant) and type(one.value) is int]
    return tuple(found) if sizes is not None and len(found) == len(sizes) else None


def _is_size(value: ast.expr) -> bool:
    """A constant or something off a shape."""
    inner = value.value if isinstance(value, ast.Subscript) else value
    return isinstance(value, ast.Constant) or (isinstance(inner, ast.Attribute) and inner.attr == "shape")


def _launched(call: ast.Call, kernels: dict[str, ast.FunctionDef]) -> ast.FunctionDef | None:
    function = call.func
    return (
        kernels.get(function.value.id) if isinstance(function, ast.Subscript) and isinstance(function.value, ast.Name) else None
    )


def _tensors(kernel: ast.FunctionDef, launch: ast.Call, known: dict[str, Shape]) -> dict[str, Shape]:
    """By parameter of the kernel, the shape of what the launch gives for it."""
    return {
        parameter.arg: known[text]
        for parameter, given in zip(kernel.args.args, launch.args)
        if (text := ast.unparse(given)) in known
    }


def _loads(kernel: ast.FunctionDef, tensors: dict[str, Shape], read: dict[str, list[tuple[str, bool]]]) -> Iterator[str]:
    """One number read at many places, or the first of many read for all."""
    if kernel.name not in read:
        read[kernel.name] = list(_pointers(kernel))
    for pointer, moved in read[kernel.name]:
        elements = prod(tensors[pointer]) if pointer in tensors else 0
        if elements > 1 and not moved:
            yield f"{kernel.name} reads the first of the {elements} elements of {pointer.removesuffix('_ptr')} for all"
        elif elements == 1 and moved:
            yield f"{kernel.name} reads {pointer.removesuffix('_ptr')}, which is one number, as many"


def _lookups(kernel: ast.FunctionDef, tensors: dict[str, Shape]) -> Iterator[str]:
    """An element looked up in a tensor of another shape than the pointer's."""
    for node in ast.walk(kernel):
        if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.Name) or not isinstance(node.right, ast.Call):
            continue
        call, pointer = node.right, node.left.id
        if ast.unparse(call.func) in ("index_in", "index_in_part") and call.args and pointer in tensors:
            sizes = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else None
            found = tuple(one.value for one in sizes or () if isinstance(one, ast.Constant))
            if sizes is not None and len(found) == len(sizes) and found != tensors[pointer]:
                yield f"{kernel.name} looks {pointer.removesuffix('_ptr')} up as {found}, and it is {tensors[pointer]}"


def _short(kernel: ast.FunctionDef, tensors: dict[str, Shape]) -> Iterator[str]:
    """A tensor read at the very places of a result that has more elements."""
    places: dict[str, list[tuple[str, str]]] = {"tl.load": [], "tl.store": []}
    for node in ast.walk(kernel):
        word = ast.unparse(node.func) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if isinstance(node, ast.Call) and word in places and node.args:
            place = node.args[0]
            if isinstance(place, ast.BinOp) and isinstance(place.left, ast.Name) and isinstance(place.right, ast.Name):
                places[word].append((place.left.id, place.right.id))
    written = {index: prod(tensors[pointer]) for pointer, index in places["tl.store"] if pointer in tensors}
    for pointer, index in places["tl.load"]:
        if pointer in tensors and 1 < prod(tensors[pointer]) < written.get(index, 0):
            yield f"{kernel.name} reads {pointer.removesuffix('_ptr')}, of {prod(tensors[pointer])} elements, at {written[index]} places"


def _pointers(kernel: ast.FunctionDef) -> Iterator[tuple[str, bool]]:
    """What is loaded, by the pointer that each place begins with, and whether something is added to it. Not of pointers that the kernel moves."""
    own = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(kernel):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "tl.load" or not node.args:
            continue
        place, added = node.args[0], []
        while isinstance(place, ast.BinOp) and isinstance(place.op, ast.Add):
            added.append(place.right)
            place = place.left
        if isinstance(place, ast.Name) and place.id not in own:
            yield place.id, any(not isinstance(one, ast.Constant) for one in added)


def _other_work(kernel: ast.FunctionDef, launch: ast.Call, room: set[str], told: _Sketch) -> Iterator[str]:
    """A kernel that is launched again for a result that another call makes. `room`: results that have room and no launch yet."""
    own = re.match(r"(t\d+(?:_\d+)?)_kernel$", kernel.name)
    results = [text for given in launch.args if (text := ast.unparse(given)) in room]
    room.difference_update(results)
    if own is None or own[1] not in told.calls or own[1] in results:
        return
    for result in results[-1:]:
        if result in told.calls and told.calls[own[1]] != told.calls[result]:
            yield f"{kernel.name} makes {told.calls[own[1]].partition('(')[0]}, and {result} is {told.calls[result].partition('(')[0]}"


def _count(value: ast.expr) -> int | None:
    """How many results are returned, in a dictionary less than none; None where that cannot be seen."""
    if isinstance(value, ast.Tuple | ast.List):
        return len(value.elts)
    if isinstance(value, ast.Dict):
        return -len(value.keys)
    if isinstance(value, ast.Name):
        return 1 if is_result(value.id) else None
    return None if isinstance(value, ast.Call) and not isinstance(value.func, ast.Attribute) else 1


def _of_kernels(source: str, kernels: dict[str, ast.FunctionDef], told: _Sketch) -> Iterator[str]:
    """Kernels that say they reduce, and do not."""
    lines = source.split("\n")
    for name, node in kernels.items():
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        reducing = [operator for result, operator in _TOLD.findall(text) if result in told.reducing]
        if reducing and not _SUMS.search(re.sub(r"#.*", "", text)):
            yield f"{name} computes {reducing[0]} and reduces nothing"
