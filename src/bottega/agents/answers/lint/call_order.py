"""The calls that an answer's comments name, against the call graph: a call that the graph does not have, one that is left out, one that no
kernel computes, a product in a kernel that adds nothing up.

A terse answer names every call that a launch computes in a comment before the launch, and again in the kernel above the lines that compute it.
A small model that loses track of the graph does so there, in text that can be compared; operands are checked elsewhere (`lint.callgraph`).
"""

from __future__ import annotations

import ast
import re

from bottega.agents.answers.context import AnswerContext
from bottega.compiler.callgraph import SAME_VALUES, CallGraph, results_in
from bottega.compiler.source.finding import Finding
from bottega.compiler.source.text import model_class, parsed

_TOLD = re.compile(r"^\s*# (t\d\w*(?:, t\d\w*)* = \w+\(.*\))\s*$")
VIEWS = SAME_VALUES | frozenset(
    ("expand", "expand_as", "view_as", "index", "chunk", "narrow", "detach", "select", "slice", "movedim", "swapaxes", "to")
)
"""Operators that a line may take in with another: also those that cut, repeat or convert, which a walk does not tell as `t3 = t2`."""

_PRODUCTS = re.compile(r" = (?:conv(?:_transpose)?[123]d|linear|matmul|mm|bmm|addmm|baddbmm|einsum)\(")
_ADDED_UP = re.compile(r"\btl\.(?:dot|sum|dot_scaled|reduce)\(|\bfor\b|\bwhile\b")


def check_call_order(source: str, context: AnswerContext) -> list[Finding]:
    """None for an answer whose comments name no calls."""
    graph = context.callgraph if context.follows_callgraph else None
    tree = parsed(source) if graph else None
    calls = {call.line: call for call in graph.calls} if graph else {}
    model = model_class(tree)
    if tree is None or model is None or graph is None or not calls:
        return []
    before, inside, after = _told(source, model)
    computed = {*before, *after}
    if not inside and not computed:
        return []
    named = dict.fromkeys((*inside, *before, *after))
    found = [Finding("call_not_in_graph", f"the call graph has no {call}") for call in named if call not in calls]
    found += [
        Finding("call_without_kernel", f"no kernel computes {call}") for call in dict.fromkeys(inside) if call not in computed
    ]
    found += [
        Finding("call_not_in_forward", f"forward does not name {call}")
        for call in dict.fromkeys((*before, *after))
        if call not in inside
    ]
    found += _products_without_sum(source, tree)
    needed = _needed(graph)
    assigned = {name.id for name in ast.walk(model) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    found += [
        Finding("call_left_out", f"{line} is left out")
        for line, call in calls.items()
        if line not in inside
        and call.operator not in VIEWS
        and needed.intersection(call.names)
        and not assigned.intersection(call.names)
    ]
    return found


def _products_without_sum(source: str, tree: ast.Module) -> list[Finding]:
    """Products that a kernel's comments name and that it cannot compute: it adds nothing up."""
    lines, found = source.split("\n"), list[Finding]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and "triton.jit" in map(ast.unparse, node.decorator_list):
            body = lines[node.lineno - 1 : node.end_lineno]
            told = [match[1] for line in body if (match := _TOLD.match(line)) and _PRODUCTS.search(match[1])]
            if told and not any(_ADDED_UP.search(line) for line in body):
                found += [Finding("product_without_sum", f"{node.name} cannot compute {call}") for call in told]
    return found


def _needed(graph: CallGraph) -> set[str]:
    """Results that what is returned is made of."""
    found = set(results_in(graph.returned))
    for call in reversed(graph.calls):
        if found.intersection(call.names):
            found.update(call.reads)
    return found


def _told(source: str, model: ast.ClassDef) -> tuple[list[str], list[str], list[str]]:
    """Calls that comments name: before the model's class, in it, after it."""
    lines = source.split("\n")
    first, last = model.lineno - 1, model.end_lineno or model.lineno
    pieces = (lines[:first], lines[first:last], lines[last:])
    before, inside, after = ([match[1] for line in piece if (match := _TOLD.match(line))] for piece in pieces)
    return before, inside, after
