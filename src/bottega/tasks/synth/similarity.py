"""How alike two tasks are in what their `Model` computes: overlap of weighted pieces of the normalised syntax tree.

Identifiers of the author's own are one word, docstrings, annotations and `super().__init__()` are gone, and names of torch count threefold: two short
modules share most of their scaffolding, and what tells them apart is the operator. 1.0 means the same up to names, comments and sizes.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from bottega.core.errors import TaskError
from bottega.core.task import Task, parsed

ALIKE = 0.9
"""From which likeness on a task is dropped, unless a run says otherwise."""
_LIBRARIES = frozenset({"torch", "nn", "F", "math", "np", "numpy", "einops", "functional"})
_OPERATOR, _ORDER, _EDGE, _PATH = 8, 4, 1, 1
"""Weights of a name of torch, of two that follow one another, of a node under its parent, and of a node under its grandparent."""

Features = Counter[tuple[str, ...]]


def features(source: str) -> Features:
    """Of the classes of a task. Empty when there is no `Model`."""
    found: Features = Counter()
    classes = [node for node in parsed(source, "task").body if isinstance(node, ast.ClassDef)]
    if not any(node.name == "Model" for node in classes):
        return found
    order: list[str] = []
    for node in classes:
        _collect(node, ("class",), found, order)
    for pair in pairwise(order):
        found["order", *pair] += _ORDER
    return found


def similarity(one: str | Features, two: str | Features) -> float:
    """From 0 to 1: twice what both have, over what each has."""
    a, b = (features(item) if isinstance(item, str) else item for item in (one, two))
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 0.0


@dataclass(frozen=True)
class Nearest:
    similarity: float
    label: str = ""


class Benchmark:
    """Tasks to stay away from, by piece, so that one question touches only those that share something."""

    def __init__(self, tasks: Iterable[Task]):
        self.labels: list[str] = []
        self.totals: list[int] = []
        self._postings: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
        for task in tasks:
            self.add(task.source, task.label)

    def add(self, source: str, label: str) -> None:
        found = features(source)
        number = len(self.labels)
        self.labels.append(label)
        self.totals.append(found.total())
        for piece, times in found.items():
            self._postings[piece].append((number, times))

    def nearest(self, source: str) -> Nearest:
        try:
            mine = features(source)
        except TaskError:
            return Nearest(0.0)
        total = mine.total()
        shared: dict[int, int] = defaultdict(int)
        for piece, times in mine.items():
            for number, theirs in self._postings.get(piece, ()):
                shared[number] += min(times, theirs)
        best = max(shared, key=lambda number: shared[number] / (total + self.totals[number]), default=None)
        if best is None:
            return Nearest(0.0)
        return Nearest(2 * shared[best] / (total + self.totals[best]), self.labels[best])


def _collect(node: ast.AST, above: tuple[str, ...], found: Features, order: list[str]) -> None:
    label, children = _label(node)
    if label:
        found["edge", above[-1], label] += _EDGE
        if len(above) > 1:
            found["path", above[-2], above[-1], label] += _PATH
        if label.startswith("torch:"):
            found["operator", label] += _OPERATOR
            order.append(label)
        above = (*above[-1:], label)
    for child in children:
        _collect(child, above, found, order)


def _label(node: ast.AST) -> tuple[str, list[ast.AST]]:
    """A word for a node and what lies below it; an empty word for scaffolding."""
    if isinstance(node, ast.ClassDef):
        return "", list(node.body)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        body = [statement for statement in node.body if not _is_scaffolding(statement)]
        return f"def:{node.name if node.name in ('__init__', 'forward') else 'own'}" if body else "", list(body)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return "", []
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        named = "AugAssign" + type(node.op).__name__ if isinstance(node, ast.AugAssign) else "Assign"
        return named, [node.value] if node.value is not None else []
    if isinstance(node, ast.Call):
        name = _torch_name(node.func)
        inner: list[ast.AST] = [*node.args, *node.keywords]
        if isinstance(node.func, ast.Attribute) and not _from_library(node.func):
            inner.insert(0, node.func.value)
        return name, inner
    if isinstance(node, ast.keyword):
        return f"keyword:{node.arg}", [node.value]
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return f"torch:{type(node.op).__name__}", list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Compare):
        return f"Compare:{type(node.ops[0]).__name__}", [node.left, *node.comparators]
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        return ("name" if own else f"attribute:{node.attr}"), [] if own else [node.value]
    if isinstance(node, ast.Name | ast.arg):
        return "name", []
    if isinstance(node, ast.Constant):
        return "name" if isinstance(node.value, int | float) and not isinstance(
            node.value, bool
        ) else f"constant:{node.value!r}", []
    if isinstance(node, ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
        return "", []
    return type(node).__name__, list(ast.iter_child_nodes(node))


def _torch_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        if isinstance(function.value, ast.Name) and function.value.id == "self":
            return "call:own"
        if not _from_library(function):
            return f"torch:.{function.attr}"
        return f"torch:{'nn.' if function.attr[:1].isupper() else ''}{function.attr}"
    return (
        f"call:{function.id}"
        if isinstance(function, ast.Name) and function.id in ("range", "zip", "enumerate", "len", "float")
        else "call:own"
    )


def _from_library(attribute: ast.Attribute) -> bool:
    value: ast.expr = attribute.value
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name) and value.id in _LIBRARIES


def _is_scaffolding(statement: ast.stmt) -> bool:
    """The call of the parent's constructor, and arguments that are only kept."""
    if isinstance(statement, ast.Expr):
        value = statement.value
        if isinstance(value, ast.Constant):
            return True
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "__init__"
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name))
