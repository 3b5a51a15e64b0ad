"""Where an answer that speaks the sketch's names says something else than the sketch: a slip of the pen, most likely.

A terse answer calls results what the task's sketch calls them. A line `t6 = tanh(t5)` where the sketch has `t6 = tanh(t4)` need not be wrong, so it
is no fault; but an answer without such lines is the better one to judge.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bottega.compiler.callgraph_text import is_result, read_sketch
from bottega.compiler.source.text import parsed


def doubts(source: str, sketch: str) -> tuple[str, ...]:
    """One sentence for each line of the answer that reads other results than the sketch's call does. Nothing where it has other names."""
    tree = parsed(source)
    calls = {name: frozenset(call.words) for name, call in read_sketch(sketch).by_name().items()}
    if tree is None or not calls:
        return ()
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)
    own = (
        {node.value.id for node in ast.walk(model) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)}
        if model
        else set()
    )
    found: list[str] = []
    try:
        for function in _functions(tree):
            if function.name in own or (model is not None and function in ast.walk(model)):
                found += _of(function, calls)
    except (RecursionError, ValueError):  # nested deeper than this can look, or a number that Python does not print
        return ()
    return tuple(dict.fromkeys(found))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _of(function: ast.FunctionDef, calls: dict[str, frozenset[str]]) -> list[str]:
    """`calls`: for every result the words that its call reads."""
    assigned = {name for name, _ in _results(function)}
    found: list[str] = []
    for name, value in _results(function):
        if name not in calls or _waits_or_makes_room(value):
            continue
        read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name) and is_result(node.id)}
        strange = read - _allowed(name, calls, assigned) - {name}
        strange = {one for one in strange if one in calls}
        missing = {one for one in calls[name] if is_result(one) and one in assigned} - read if read else set()
        if strange:
            found.append(f"{name} is computed from {', '.join(sorted(strange))}, which the sketch does not say")
        elif missing and not any(isinstance(node, ast.Name) and re.match(r"v\d", node.id) for node in ast.walk(value)):
            found.append(f"{name} is computed without {', '.join(sorted(missing))}")
    return found


def _results(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _waits_or_makes_room(value: ast.expr) -> bool:
    """Loads, allocations and sizes: nothing that a sketch's call says."""
    text = ast.unparse(value)
    return (
        text.startswith(("tl.load(", "torch.empty", "torch.zeros", "tl.zeros(", "tl.program_id(", "triton.")) or ".to(" in text
    )


def _allowed(name: str, calls: dict[str, frozenset[str]], assigned: set[str]) -> set[str]:
    """What the call reads, and what that is made of where it has no variable here."""
    found: set[str] = set()
    pending = [one for one in calls[name] if is_result(one)]
    while pending:
        one = pending.pop()
        if one in found:
            continue
        found.add(one)
        if one not in assigned:
            pending += [before for before in calls.get(one, ()) if is_result(before)]
    return found
