"""Where an answer that walks along the sketch leaves it: a call that the sketch does not have, one that is left out, one that no kernel computes.

Such an answer tells every call that a launch computes in a comment before the launch, and again in the kernel above the lines that compute it.
A small model that loses its way does so there, in words that can be compared; what it then computes is not looked at (see `doubts` for that).
"""

from __future__ import annotations

import ast
import re

from bottega.agents.code import parsed

_CALL = re.compile(r"^(t\d+\w*(?:, t\d+\w*)*) = (\w+\(.*\))(?: (?:[\dx]+|scalar).*)?$")
_TOLD = re.compile(r"^\s*# (t\d\w*(?:, t\d\w*)* = \w+\(.*\))\s*$")
_RESULT = re.compile(r"(?<![\w.])t\d+(?:_\d+)?(?!\w)")
VIEWS = frozenset(
    (
        *("unsqueeze", "squeeze", "view", "reshape", "permute", "transpose", "flatten", "unflatten", "contiguous", "dropout", "t", "T", "mT"),
        *("clone", "expand", "expand_as", "view_as", "index", "chunk", "narrow", "detach", "select", "slice", "movedim", "swapaxes", "to"),
    )
)  # fmt: skip
"""Operators that a line may take in with another."""


def strayed(source: str, sketch: str) -> tuple[str, ...]:
    """One sentence for each place; nothing for an answer that tells no calls."""
    tree, calls = parsed(source), _calls(sketch)
    model = _model(tree) if tree is not None else None
    if model is None or not calls:
        return ()
    before, inside, after = _told(source, model)
    computed = {*before, *after}
    if not inside and not computed:
        return ()
    found = [f"the sketch has no {call}" for call in dict.fromkeys((*inside, *before, *after)) if call not in calls]
    found += [f"no kernel computes {call}" for call in dict.fromkeys(inside) if call not in computed]
    found += [f"forward does not say {call}" for call in dict.fromkeys((*before, *after)) if call not in inside]
    needed = _needed(sketch)
    assigned = {name.id for name in ast.walk(model) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    found += [
        f"{call} is left out"
        for call, (operator, results) in calls.items()
        if call not in inside and not assigned.intersection(results) and operator not in VIEWS and needed.intersection(results)
    ]
    return tuple(found)


def _calls(sketch: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Operator and results by the call's text."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in sketch.splitlines():
        if match := _CALL.match(line):
            found[f"{match[1]} = {match[2]}"] = match[2].partition("(")[0], tuple(match[1].split(", "))
    return found


def _needed(sketch: str) -> set[str]:
    """Results that what is returned is made of."""
    lines = sketch.splitlines()
    found = set(_RESULT.findall(lines[-1])) if lines else set()
    for line in reversed(lines):
        match = _CALL.match(line)
        if match and found.intersection(match[1].split(", ")):
            found.update(_RESULT.findall(match[2]))
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
