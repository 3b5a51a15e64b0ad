"""Which names a file reads, binds and imports: read from the text, nothing is run."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from symtable import symtable

BUILTIN = frozenset(dir(builtins)) | {"__file__", "__class__"}


@dataclass(frozen=True)
class Names:
    read: frozenset[str]
    """Read anywhere and not bound where they are."""
    bound: frozenset[str]
    """Bound by running the file."""
    assigned: frozenset[str]
    """Bound by something else than an import, if only by a function that says `global`."""
    imports: dict[str, frozenset[str]]
    """By name, what it may stand for."""
    stars: bool
    """Whether anything may come from an import of everything."""

    @property
    def taken(self) -> frozenset[str]:
        return self.bound | self.assigned


def names_of(source: str, body: Sequence[ast.stmt]) -> Names:
    """Raises SyntaxError where the file parses and still is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in C++ strings that are not raw
        outermost = symtable(source, "answer", "exec")
    symbols = outermost.get_symbols()
    read = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    assigned = {symbol.get_name() for symbol in symbols if symbol.is_assigned()}
    bound = assigned | {symbol.get_name() for symbol in symbols if symbol.is_imported()}
    pending = outermost.get_children()
    while pending:
        table = pending.pop()
        for symbol in table.get_symbols():
            if symbol.is_global():
                read.add(symbol.get_name())
                if symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported()):
                    assigned.add(symbol.get_name())
        pending += table.get_children()
    imports: dict[str, set[str]] = {}
    stars = False
    for statement in _imports(body):
        stars |= statement.names[0].name == "*"
        for name, stands in imported(statement).items():
            imports.setdefault(name, set()).add(stands)
    stand = {name: frozenset(found) for name, found in imports.items()}
    return Names(frozenset(read), frozenset(bound), frozenset(assigned), stand, stars)


def imported(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """By name, what it stands for: `from torch import nn` and `import torch.nn as nn` are the same."""
    if isinstance(statement, ast.Import):
        roots = [alias.name.split(".")[0] for alias in statement.names]
        return {alias.asname or root: alias.name if alias.asname else root for alias, root in zip(statement.names, roots)}
    return {alias.asname or alias.name: f"{'.' * statement.level}{statement.module}.{alias.name}" for alias in statement.names}


def _imports(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those that running the file does, also inside if and try blocks."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            pending += ast.iter_child_nodes(node)
