"""Reads a network's file: what its names stand for, and which statements its model needs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from bottega.compiler.build_step import Refusal
from bottega.compiler.module_frame import read_model
from bottega.compiler.source.names import imported
from bottega.compiler.source.statements import binds, reads
from bottega.core.task import Task

CONTRACT = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class NetworkSource:
    """A task's file, read: what its names stand for, and which statements the model needs."""

    source: str
    label: str
    model: ast.ClassDef
    paths: dict[str, str]
    """Imported names with what they stand for, by torch's dotted name."""
    kept: tuple[ast.stmt, ...]
    """Classes, functions and constants that the model uses, in order, imports apart."""
    imports: tuple[ast.stmt, ...]

    @property
    def forward(self) -> ast.FunctionDef:
        return next(node for node in self.model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")

    @property
    def names(self) -> frozenset[str]:
        """Every name that the kept text uses or binds."""
        inside = (node for statement in self.kept for node in ast.walk(statement))
        found = {node.id for node in inside if isinstance(node, ast.Name)}
        return frozenset(found | {name for statement in self.kept for name in binds(statement)})

    def path(self, node: ast.AST) -> str:
        """What an expression names, by its dotted name from the import on; empty where it is no such thing."""
        if isinstance(node, ast.Name):
            return self.paths.get(node.id, "")
        if isinstance(node, ast.Attribute):
            owner = self.path(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


def read_network(task: Task) -> NetworkSource:
    tree, bound, model = read_model(task)
    if any(not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
           for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))):  # fmt: skip
        raise Refusal(f"{task.label}: the file does more than define things")
    needed = _needed(model, bound)
    imports = tuple(node for node in tree.body if node in needed and isinstance(node, ast.Import | ast.ImportFrom))
    kept = tuple(node for node in tree.body if node in needed and node not in imports)
    paths = {name: stands for statement in imports for name, stands in imported(statement).items()}
    return NetworkSource(task.source, task.label, model, paths, kept, imports)


def _needed(model: ast.ClassDef, bound: Mapping[str, list[ast.stmt]]) -> set[ast.stmt]:
    found: set[ast.stmt] = {model}
    pending: list[ast.stmt] = [model]
    while pending:
        for name in reads(pending.pop()):
            for statement in bound.get(name, ()):
                if any(each in CONTRACT for each in binds(statement)):
                    raise Refusal(f"the model calls {', '.join(CONTRACT)}")
                if statement not in found:
                    found.add(statement)
                    pending.append(statement)
    return found
