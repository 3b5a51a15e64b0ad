"""Operands that are read at another's places: a tensor of 32x1x12800 where the elements of one of 32x96x12800 lie, or a whole mask by its first row.

Which place belongs to an element follows from the two shapes alone, and both stand in the sketch. A small model that takes an operand for
one of the full shape, or for a single row, therefore has its place put right: by `index_in`, as everywhere in such answers.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from bottega.compiler.callgraph_text import SAME_VALUES, Shape, Sketch, is_result, read_sketch, shapes_of
from bottega.compiler.source.text import compiles, exchanged, parsed

FLAT = ("offsets", "row * columns + column", "i * J * columns + j + column * J")
"""How the places of a whole tensor are written."""
REDUCED = "row"
"""How those of a result are that is left of the rows."""
ALONG = {"row * columns + column": "column"}
"""And how those of a single row are, beside them."""
MOST_LOADS = 200
"""Of a kernel: whoever has more writes otherwise."""
JOINING = frozenset(
    (
        "add", "sub", "mul", "div", "rsub", "pow", "maximum", "minimum", "where", "masked_fill", "lerp", "addcmul", "prelu", "atan2", "fmod",
        "remainder", "eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or", "layer_norm", "rms_norm",
    )
)  # fmt: skip
"""Operators that spread their operands to one shape."""
_VIEWS = (SAME_VALUES | {"index"}) - {"transpose", "permute", "t", "T", "mT"}
"""The same elements in the same order."""
_CUTS = frozenset(("index", "select", "narrow", "chunk", "split", "unbind", "index_select", "gather", "slice"))


def put_right(source: str, sketch: str) -> str:
    """The answer with the places of such operands exchanged; itself where there are none, or it cannot be read."""
    try:
        tree, read = parsed(source), read_sketch(sketch)
        if tree is None or not read.calls:
            return source
        made = exchanged(source, _edits(tree, read))
        return made if compiles(made) else source
    except (RecursionError, MemoryError, ValueError, IndexError):
        return source


@dataclass(frozen=True)
class _Access:
    tensor: str
    """As `forward` calls it."""
    pointer: str
    where: str
    mask: str
    call: ast.Call
    is_store: bool


def _edits(tree: ast.Module, sketch: Sketch) -> list[tuple[ast.expr, str]]:
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)
    methods = [node for node in model.body if isinstance(node, ast.FunctionDef)] if model else []
    if len(methods) != 1 or methods[0].name != "forward":
        return []  # a constructor may make other tensors than the sketch tells
    launches = [node for node in ast.walk(tree) if _launched(node) in kernels]
    inside = set(map(id, ast.walk(methods[0])))
    often = Counter(map(_launched, launches))
    shapes = _as_told(methods[0], sketch)
    found: list[tuple[ast.expr, str]] = []
    for launch in launches:
        kernel = kernels[_launched(launch)]
        if often[kernel.name] > 1 or id(launch) not in inside or not isinstance(launch, ast.Call):
            continue  # what is launched twice has two sets of shapes
        accesses = list(_accesses(kernel, launch))
        found += _of_kernel(kernel, accesses, shapes, sketch) if len(accesses) <= MOST_LOADS else ()
    return found


def _as_told(forward: ast.FunctionDef, sketch: Sketch) -> dict[str, Shape]:
    """Shapes of what has the sketch's name and value: inputs that are never bound again, results that are bound once."""
    bound = Counter(node.id for node in ast.walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    changed = {
        ast.unparse(node) for node in ast.walk(forward) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return {name: shape for name, shape in shapes_of(sketch).items() if bound[name] <= is_result(name) and name not in changed}


def _launched(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Subscript(value=ast.Name(id=name))):
            return name
    return ""


def _accesses(kernel: ast.FunctionDef, launch: ast.Call) -> Iterator[_Access]:
    given = {argument.arg: ast.unparse(value) for argument, value in zip(kernel.args.args, launch.args)}
    for node in ast.walk(kernel):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="load" | "store" as kind), args=[address, *_]):
                pointer, _, where = ast.unparse(address).partition(" + ")
                masks = [ast.unparse(word.value) for word in node.keywords if word.arg == "mask"]
                if pointer in given and where:
                    yield _Access(given[pointer], pointer, where, masks[0] if masks else "", node, kind == "store")


def _of_kernel(
    kernel: ast.FunctionDef, accesses: Sequence[_Access], shapes: Mapping[str, Shape], sketch: Sketch
) -> Iterator[tuple[ast.expr, str]]:
    """What the kernel stores at the places of a whole tensor tells the shape that everything else is read along."""
    lines = _bound_at(kernel)
    known: dict[tuple[str, Shape], Shape | None] = {}
    for flat in (*FLAT, REDUCED):
        stored = [each for each in accesses if each.is_store and each.where == flat and each.tensor in shapes]
        if len({shapes[each.tensor] for each in stored}) != 1:
            continue
        whole, mask = shapes[stored[0].tensor], stored[0].mask
        needed = {node.id for text in (flat, mask) if text for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for each in accesses:
            if (each.tensor, whole) not in known:
                known[each.tensor, whole] = _meant(each.tensor, whole, shapes, sketch)
            shape = known[each.tensor, whole]
            if each.is_store or shape is None or prod(shape) == prod(whole):
                continue
            if any(lines.get(name, each.call.lineno) >= each.call.lineno for name in needed):
                continue  # bound later, in a loop, or twice
            right = f"index_in({_tuple(shape)}, {_tuple(whole)}, {flat})"
            wrong = {flat} if flat in FLAT else set()
            if prod(shape) > whole[-1]:
                wrong |= {ALONG.get(flat, flat)}
            wrong |= {f"index_in({_tuple(shape)}, {_tuple(whole)}, {other})" for other in FLAT if other != flat}
            if each.where in wrong and not any(other.tensor == each.tensor and other.where == right for other in accesses):
                yield each.call.args[0], f"{each.pointer} + {right}"
                for word in each.call.keywords:
                    if word.arg == "mask" and mask and ast.unparse(word.value) != mask:
                        yield word.value, mask


def _bound_at(kernel: ast.FunctionDef) -> dict[str, int]:
    """By name the line at which a kernel binds it: 0 for an argument, and beyond its end for what is bound twice, or in a loop."""
    beyond = (kernel.end_lineno or kernel.lineno) + 1
    often = Counter(node.id for node in ast.walk(kernel) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    found = dict.fromkeys(often, beyond)
    for statement in kernel.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            found[name] = statement.lineno if often[name] == 1 else beyond
    return found | {argument.arg: 0 for argument in kernel.args.args if argument.arg not in often}


def _meant(tensor: str, whole: Shape, shapes: Mapping[str, Shape], sketch: Sketch) -> Shape | None:
    """The shape in which the sketch joins this tensor with one of the whole shape: its own, or that of a view of it."""
    if tensor not in shapes:
        return None
    names = {tensor: shapes[tensor]}
    for call in sketch.calls:
        first = call.arguments.partition(",")[0].strip()
        if first in names and call.size is not None:
            alike = prod(call.size) == prod(names[first])
            if call.operator in _CUTS and not alike:
                return None  # a part of it is read otherwise
            if call.operator in _VIEWS and alike:
                names |= dict.fromkeys(call.names, call.size)
    for call in sketch.calls:
        given = [part.strip() for part in call.arguments.split(",")]
        if call.size == whole and call.operator in JOINING:
            for name, shape in names.items():
                if name in given and shape != whole and _spreads(shape, whole):
                    return shape
    return None


def _spreads(shape: Shape, whole: Shape) -> bool:
    """Whether it is broadcast to the whole shape."""
    return len(shape) <= len(whole) and all(
        own in (1, other) for own, other in zip(reversed(shape), reversed(whole), strict=False)
    )


def _tuple(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
