"""Names as the sketch spells them: a small model drops or doubles letters of a name that it copies.

Only what would surely fail is touched, and only in `forward`: a name that nothing binds, where one argument is spelt nearly so, an
attribute that the module does not have, where the sketch's line for the same result tells which one it is; and in the end a dimension
behind the last. Whatever stays doubtful stays as it was written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from bottega.agents.code import compiles, exchanged, parsed
from bottega.agents.names import BUILTIN
from bottega.agents.scopes import Scopes
from bottega.agents.sketch_lines import Sketch, is_result, read_sketch

NEAR = 0.6
"""How much two spellings must share, as `difflib` reckons it."""
_OWN = re.compile(r"\bself\.(\w+)")
_PLACE = re.compile(r"self\.(\w+)(.*)")


def respelled(source: str, task_source: str, sketch: str) -> str:
    """The answer with such names exchanged; itself where there is nothing to exchange, or it does not parse."""
    tree, read = parsed(source), read_sketch(sketch)
    forward = _forward(tree) if tree is not None else None
    if tree is None or forward is None or not read.calls:
        return source
    members = {*_OWN.findall(task_source), *_OWN.findall(_class_text(tree)), *(name for name in _methods(tree))}
    edits = [*_names(tree, forward), *_places(forward, members, read)]
    whole = exchanged(source, edits) if edits else source
    return whole if compiles(whole) else source


def within_shapes(source: str, sketch: str) -> str:
    """The answer with `t2.shape[2]` in place of `t2.shape[3]`, where the tensor has three dimensions. It may be another one that is meant, so
    this comes last, where no other draw was free of it: the answer would fail in any case."""
    tree, read = parsed(source), read_sketch(sketch)
    forward = _forward(tree) if tree is not None else None
    edits = list(_dimensions(forward, read)) if forward is not None else []
    whole = exchanged(source, edits) if edits else source
    return whole if compiles(whole) else source


def _names(tree: ast.Module, forward: ast.FunctionDef) -> Iterator[tuple[ast.expr, str]]:
    scopes = Scopes(tree)
    arguments = [each.arg for each in forward.args.args[1:]]
    missing = {each.name for each in scopes.reads if not each.scope.finds(each.name)} - BUILTIN
    unknown = [
        node for node in ast.walk(forward) if isinstance(node, ast.Name) and node.id in missing and not is_result(node.id)
    ]
    for node in unknown if not scopes.open else ():
        if len(near := get_close_matches(node.id, arguments, 2, NEAR)) == 1:
            yield node, near[0]


def _places(forward: ast.FunctionDef, members: set[str], sketch: Sketch) -> Iterator[tuple[ast.expr, str]]:
    by_name = sketch.by_name()
    for statement in ast.walk(forward):
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            continue
        call = by_name.get(statement.targets[0].id)
        for node in _paths(statement.value) if call is not None else ():
            match = _PLACE.fullmatch(ast.unparse(node))
            if match is None or match[1] in members or call is None:
                continue
            told = [own for place in sketch.given if place in call.arguments and (own := _PLACE.fullmatch(place))]
            near = get_close_matches(match[1], {own[1] for own in told if own[2] == match[2]}, 2, NEAR)
            if len(near) == 1:
                yield node, f"self.{near[0]}{match[2]}"


def _dimensions(forward: ast.FunctionDef, sketch: Sketch) -> Iterator[tuple[ast.expr, str]]:
    calls = {name: size for call in sketch.calls for name, size in zip(call.names, call.sizes * len(call.names))}
    shapes = {**sketch.given, **calls}
    for node in ast.walk(forward):
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=tensor, attr="shape"), slice=ast.Constant(value=int() as dim) as place
            ):
                shape = shapes.get(ast.unparse(tensor), ())
                if shape and dim >= len(shape):
                    yield place, str(len(shape) - 1)


def _paths(value: ast.expr) -> Iterator[ast.expr]:
    """Places of the module, `self.conv.weight` and `self.layers[0].bias`, each as a whole."""
    if isinstance(value, ast.Attribute | ast.Subscript) and ast.unparse(value).startswith("self."):
        yield value
        return
    for child in ast.iter_child_nodes(value):
        if isinstance(child, ast.expr | ast.keyword):
            yield from _paths(child.value if isinstance(child, ast.keyword) else child)


def _forward(tree: ast.Module) -> ast.FunctionDef | None:
    found = [
        node for each in _models(tree) for node in each.body if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    return found[0] if len(found) == 1 and found[0].args.args else None


def _models(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]


def _methods(tree: ast.Module) -> Iterator[str]:
    return (node.name for each in _models(tree) for node in each.body if isinstance(node, ast.FunctionDef))


def _class_text(tree: ast.Module) -> str:
    """What the answer's own class sets: `self.graph = None`."""
    stored = (
        node
        for each in _models(tree)
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    return " ".join(ast.unparse(node) for node in stored)
