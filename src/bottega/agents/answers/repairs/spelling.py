"""Names as the sketch spells them: a small model drops or doubles letters of a name that it copies.

Only what would surely fail is touched, and only in `forward`: a name that nothing binds, where one argument is spelt nearly so, an
attribute that the module does not have, where the sketch's line for the same result tells which one it is; and in the end a dimension
behind the last. Whatever stays doubtful stays as it was written. An answer is read when it is whole: before that, parts of the shelf and
names of the task's are names that nothing binds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from bottega.compiler.callgraph_text import Call, Shape, Sketch, is_result, read_sketch, shapes_of
from bottega.compiler.source.names import BUILTIN
from bottega.compiler.source.scopes import Scopes
from bottega.compiler.source.text import compiles, exchanged, parsed

NEAR = 0.6
"""How much two spellings must share, as `difflib` reckons it."""
MOST, LONGEST = 16, 60
"""Names that are compared, and characters of one: whoever invents more is not misspelling."""
_WORD = re.compile(r"[^\W\d]\w*")
_PLACE = re.compile(r"self\.(\w+)((?:\[\d+\]|\.\w+)*)")
_BY_OTHER_WAYS = re.compile(r"setattr|add_module|register_module|__getattr|__dict__|\bexec\b")
"""Whoever has these may have attributes that no text shows."""
_UNREADABLE = (RecursionError, MemoryError, ValueError)

Edit = tuple[ast.expr, str]
Edits = Callable[[ast.Module, ast.FunctionDef, Sketch], list[Edit]]


def respelled(source: str, task_source: str, sketch: str) -> str:
    """The whole answer with such names exchanged; itself where there is nothing to exchange, or it cannot be read."""
    return _with(
        source, sketch, lambda tree, forward, read: [*_names(tree, forward), *_places(tree, forward, task_source, read)]
    )


def within_shapes(source: str, sketch: str) -> str:
    """The answer with `t2.shape[2]` in place of `t2.shape[3]`, where the tensor has three dimensions. It may be another one that is meant, so
    this comes last, where no other draw was free of it: the answer would fail in any case."""
    return _with(source, sketch, lambda tree, forward, read: list(_dimensions(forward, read)))


def _with(source: str, sketch: str, edits_of: Edits) -> str:
    try:
        tree, read = parsed(source), read_sketch(sketch)
        forward = _forward(tree) if tree is not None else None
        if tree is None or forward is None or not read.calls:
            return source
        edits = edits_of(tree, forward, read)
        whole = exchanged(source, edits) if edits else source
        return whole if compiles(whole) else source
    except _UNREADABLE:
        return source


def _names(tree: ast.Module, forward: ast.FunctionDef) -> Iterator[Edit]:
    scopes = Scopes(tree)
    arguments = [each.arg for each in forward.args.args[1:] if len(each.arg) <= LONGEST][:MOST]
    missing = {
        each.name for each in scopes.reads if each.scope.name == forward.name and not each.scope.finds(each.name)
    } - BUILTIN
    found = {each.name for each in scopes.reads if each.scope.name == forward.name and each.scope.finds(each.name)}
    guarded = any(isinstance(node, ast.Try | ast.With) for node in ast.walk(forward))
    wanted = {name for name in missing - found if not is_result(name) and len(name) <= LONGEST}
    if scopes.open or guarded or len(wanted) > MOST:
        return
    near = {name: get_close_matches(name, arguments, 2, NEAR) for name in wanted}
    for node in ast.walk(forward):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and len(near.get(node.id, ())) == 1:
            yield node, near[node.id][0]


def _places(tree: ast.Module, forward: ast.FunctionDef, task_source: str, sketch: Sketch) -> Iterator[Edit]:
    text = ast.unparse(tree)
    if _BY_OTHER_WAYS.search(text) or _BY_OTHER_WAYS.search(task_source):
        return
    known, by_name = _set_by(tree) | set(_WORD.findall(task_source)), sketch.by_name()
    for name, value in _assigned(forward):
        call = by_name.get(name)
        if call is None:
            continue
        for node in _paths(value):
            place = _PLACE.fullmatch(ast.unparse(node))
            if place is None or place[1] in known or len(place[1]) > LONGEST:
                continue
            told = [own for given in sketch.given if given in call.arguments and (own := _PLACE.fullmatch(given))]
            near = get_close_matches(place[1], {own[1] for own in told[:MOST] if own[2] == place[2]}, 2, NEAR)
            if len(near) == 1:
                yield node, f"self.{near[0]}{place[2]}"


def _set_by(tree: ast.Module) -> set[str]:
    """Whatever the file may give to an object: what it sets, what its classes define, and every word of its texts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.ClassDef(body=body):
                found.update(
                    name.id
                    for each in body
                    for name in ast.walk(each)
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                )
                found.update(
                    each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                )
            case ast.Constant(value=str() as text):
                found.update(_WORD.findall(text))
    return found


def _dimensions(forward: ast.FunctionDef, sketch: Sketch) -> Iterator[Edit]:
    shapes, calls = shapes_of(sketch), sketch.by_name()
    if any(
        isinstance(node, ast.Try | ast.With | ast.FunctionDef | ast.Lambda) for node in ast.walk(forward) if node is not forward
    ):
        return
    for node in ast.walk(forward):
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int() as dim) as place
            ):
                shape = shapes.get(name, ())
                if shape and dim >= len(shape) and _is_as_told(name, forward, calls, shape):
                    yield place, str(len(shape) - 1)


def _is_as_told(name: str, forward: ast.FunctionDef, calls: Mapping[str, Call], shape: Shape) -> bool:
    """Whether it is the sketch's tensor: an argument that stays what it is, or made once, by the sketch's operator or as empty as the sketch says."""
    stored = [
        node for node in ast.walk(forward) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    made = [value for target, value in _assigned(forward) if target == name]
    if name not in calls:
        return not stored
    match made if len(stored) == 1 else []:
        case [ast.Call(func=ast.Name(id=operator))]:
            return operator == calls[name].operator
        case [ast.Call(func=ast.Attribute(attr="empty"), args=[ast.Tuple(elts=sizes)])]:
            return [ast.unparse(each) for each in sizes] == [str(size) for size in shape]
    return False


def _assigned(forward: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """What each statement of its own gives a name to."""
    for statement in forward.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value


def _paths(value: ast.expr) -> Iterator[ast.expr]:
    """Places of the module, `self.conv.weight` and `self.layers[0].bias`, each as a whole."""
    if isinstance(value, ast.Attribute | ast.Subscript) and ast.unparse(value).startswith("self."):
        yield value
        return
    for child in ast.iter_child_nodes(value):
        if isinstance(child, ast.expr | ast.keyword):
            yield from _paths(child.value if isinstance(child, ast.keyword) else child)


def _forward(tree: ast.Module) -> ast.FunctionDef | None:
    """Of the one `ModelNew` that is the task's `Model` and nothing else besides."""
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"]
    if len(models) != 1 or [ast.unparse(each) for each in models[0].bases] != ["Model"]:
        return None
    found = [node for node in models[0].body if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    return found[0] if len(found) == 1 and found[0].args.args else None
