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

from bottega.agents.code import compiles, exchanged, parsed
from bottega.agents.sketch_lines import SAME_VALUES, Shape, Sketch, read_sketch, shapes_of

FLAT = ("offsets", "row * columns + column", "i * J * columns + j + column * J")
"""How the places of a whole tensor are written."""
REDUCED = "row"
"""How those of a result are that is left of the rows."""
ALONG = {"row * columns + column": "column"}
"""And how those of a single row are, beside them."""
_VIEWS = SAME_VALUES | {"index"}


def put_right(source: str, sketch: str) -> str:
    """The answer with the places of such operands exchanged; itself where there are none, or it cannot be read."""
    try:
        tree, read = parsed(source), read_sketch(sketch)
        if tree is None or not read.calls:
            return source
        made = exchanged(source, _edits(tree, read))
        return made if compiles(made) else source
    except (RecursionError, MemoryError, ValueError):
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
    launches = [node for node in ast.walk(tree) if _launched(node) in kernels]
    often = Counter(map(_launched, launches))
    shapes = shapes_of(sketch)
    found: list[tuple[ast.expr, str]] = []
    for launch in launches:
        name = _launched(launch)
        if often[name] == 1 and isinstance(launch, ast.Call):  # what is launched twice has two sets of shapes
            found += _of_kernel(list(_accesses(kernels[name], launch)), shapes, sketch)
    return found


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


def _of_kernel(accesses: Sequence[_Access], shapes: Mapping[str, Shape], sketch: Sketch) -> Iterator[tuple[ast.expr, str]]:
    """What the kernel stores at the places of a whole tensor tells the shape that everything else is read along."""
    for flat in (*FLAT, REDUCED):
        stored = [each for each in accesses if each.is_store and each.where == flat and each.tensor in shapes]
        if len({shapes[each.tensor] for each in stored}) != 1:
            continue
        whole, mask = shapes[stored[0].tensor], stored[0].mask
        for each in accesses:
            shape = _meant(each.tensor, whole, shapes, sketch)
            if each.is_store or shape is None or prod(shape) == prod(whole):
                continue
            right = f"index_in({_tuple(shape)}, {_tuple(whole)}, {flat})"
            wrong = {flat} if flat in FLAT else set()
            if prod(shape) > whole[-1]:
                wrong |= {ALONG.get(flat, flat)}
            wrong |= {f"index_in({_tuple(shape)}, {_tuple(whole)}, {other})" for other in FLAT if other != flat}
            if each.where in wrong:
                yield each.call.args[0], f"{each.pointer} + {right}"
                for word in each.call.keywords:
                    if word.arg == "mask" and mask and ast.unparse(word.value) != mask:
                        yield word.value, mask


def _meant(tensor: str, whole: Shape, shapes: Mapping[str, Shape], sketch: Sketch) -> Shape | None:
    """The shape in which the sketch joins this tensor with one of the whole shape: its own, or that of a view of it."""
    if tensor not in shapes:
        return None
    names = {tensor: shapes[tensor]}
    for call in sketch.calls:
        views = [names[name] for name in names if call.operator in _VIEWS and call.arguments.partition(",")[0] == name]
        if views and call.size is not None and prod(call.size) == prod(views[0]):
            names |= dict.fromkeys(call.names, call.size)
    for call in sketch.calls:
        given = [part.strip() for part in call.arguments.split(",")]
        if call.size == whole and call.operator not in _VIEWS:
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
