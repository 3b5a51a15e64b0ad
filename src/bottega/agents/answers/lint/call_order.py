"""Where an answer that walks along the sketch leaves it: a call that the sketch does not have, one that is left out, one that no kernel computes,
a product in a kernel that adds nothing up.

Such an answer tells every call that a launch computes in a comment before the launch, and again in the kernel above the lines that compute it.
A small model that loses its way does so there, in words that can be compared; what it then computes is not looked at (see `doubts` for that).
"""

from __future__ import annotations

import ast
import re

from bottega.compiler.callgraph_text import SAME_VALUES, Sketch, read_sketch, results_in
from bottega.compiler.source.text import parsed

_TOLD = re.compile(r"^\s*# (t\d\w*(?:, t\d\w*)* = \w+\(.*\))\s*$")
VIEWS = SAME_VALUES | frozenset(
    ("expand", "expand_as", "view_as", "index", "chunk", "narrow", "detach", "select", "slice", "movedim", "swapaxes", "to")
)
"""Operators that a line may take in with another: also those that cut, repeat or convert, which a walk does not tell as `t3 = t2`."""

_PRODUCTS = re.compile(r" = (?:conv(?:_transpose)?[123]d|linear|matmul|mm|bmm|addmm|baddbmm|einsum)\(")
_ADDED_UP = re.compile(r"\btl\.(?:dot|sum|dot_scaled|reduce)\(|\bfor\b|\bwhile\b")


def strayed(source: str, sketch: str) -> tuple[str, ...]:
    """One sentence for each place; nothing for an answer that tells no calls."""
    tree, read = parsed(source), read_sketch(sketch)
    calls = {call.line: call for call in read.calls}
    model = _model(tree) if tree is not None else None
    if tree is None or model is None or not calls:
        return ()
    before, inside, after = _told(source, model)
    computed = {*before, *after}
    if not inside and not computed:
        return ()
    found = [f"the sketch has no {call}" for call in dict.fromkeys((*inside, *before, *after)) if call not in calls]
    found += [f"no kernel computes {call}" for call in dict.fromkeys(inside) if call not in computed]
    found += [f"forward does not say {call}" for call in dict.fromkeys((*before, *after)) if call not in inside]
    found += _hasty(source, tree)
    needed = _needed(read)
    assigned = {name.id for name in ast.walk(model) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    found += [
        f"{line} is left out"
        for line, call in calls.items()
        if line not in inside
        and call.operator not in VIEWS
        and needed.intersection(call.names)
        and not assigned.intersection(call.names)
    ]
    return tuple(found)


def _hasty(source: str, tree: ast.Module) -> list[str]:
    """Products that a kernel tells and cannot compute: it adds nothing up."""
    lines, found = source.split("\n"), []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and "triton.jit" in map(ast.unparse, node.decorator_list):
            body = lines[node.lineno - 1 : node.end_lineno]
            told = [match[1] for line in body if (match := _TOLD.match(line)) and _PRODUCTS.search(match[1])]
            if told and not any(_ADDED_UP.search(line) for line in body):
                found += [f"{node.name} cannot compute {call}" for call in told]
    return found


def _needed(sketch: Sketch) -> set[str]:
    """Results that what is returned is made of."""
    found = set(results_in(sketch.returned))
    for call in reversed(sketch.calls):
        if found.intersection(call.names):
            found.update(call.reads)
    return found


def _model(tree: ast.Module) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)


def _told(source: str, model: ast.ClassDef) -> tuple[list[str], list[str], list[str]]:
    """Calls that comments tell: before the model's class, in it, after it."""
    lines = source.split("\n")
    first, last = model.lineno - 1, model.end_lineno or model.lineno
    pieces = (lines[:first], lines[first:last], lines[last:])
    before, inside, after = ([match[1] for line in piece if (match := _TOLD.match(line))] for piece in pieces)
    return before, inside, after
