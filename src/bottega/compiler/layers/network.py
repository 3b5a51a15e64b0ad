"""Reads a network's file: what its names stand for, and which statements its model needs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from symtable import SymbolTable, symtable

from bottega.compiler.build_step import Refusal
from bottega.compiler.module_frame import read_model
from bottega.compiler.source.statements import binds
from bottega.core.task import Task

CONTRACT = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class NetworkSource:
    """A task's file, read: what its names stand for, and which statements the model needs."""

    source: str
    label: str
    model: ast.ClassDef
    bound: dict[str, ast.stmt]
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
    needed = _needed(model, bound, task.source)
    imports = tuple(node for node in tree.body if node in needed and isinstance(node, ast.Import | ast.ImportFrom))
    kept = tuple(node for node in tree.body if node in needed and node not in imports)
    return NetworkSource(task.source, task.label, model, bound, _paths(imports), kept, imports)


def _needed(model: ast.ClassDef, bound: Mapping[str, ast.stmt], source: str) -> set[ast.stmt]:
    scopes = {table.get_name(): table for table in symtable(source, "task", "exec").get_children()}
    found: set[ast.stmt] = {model}
    pending: list[ast.stmt] = [model]
    while pending:
        for name in _reached(pending.pop(), scopes):
            statement = bound.get(name)
            if statement is not None and statement not in found:
                if any(each in CONTRACT for each in binds(statement)):
                    raise Refusal(f"the model calls {', '.join(CONTRACT)}")
                found.add(statement)
                pending.append(statement)
    return found


def _reached(statement: ast.stmt, scopes: Mapping[str, SymbolTable]) -> set[str]:
    """Names of the file that a statement reads: those that Python itself takes for global ones, not every word that is alike."""
    if not isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    around: list[ast.expr] = list(statement.decorator_list)
    around += statement.args.defaults if isinstance(statement, ast.FunctionDef) else statement.bases
    found = {node.id for part in around for node in ast.walk(part) if isinstance(node, ast.Name)}
    pending = [scopes[statement.name]]
    while pending:
        table = pending.pop()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        pending += table.get_children()
    return found


def _paths(imports: Iterable[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in imports:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                found[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for alias in statement.names:
                found[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return found
