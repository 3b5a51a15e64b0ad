"""What a statement of a Python file binds, and what it takes from the file around it: read from the text, nothing is run."""

from __future__ import annotations

import ast
from symtable import symtable


def binds(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def reads(node: ast.AST) -> set[str]:
    """Names that it takes from the file around it: an argument of the same name as a constant is not one."""
    found: set[str] = set()
    pending = [symtable(ast.unparse(node), "task", "exec")]
    while pending:
        table = pending.pop()
        outermost = table.get_type() == "module"
        found |= {name.get_name() for name in table.get_symbols() if name.is_global() or (outermost and name.is_referenced())}
        pending += table.get_children()
    return found
