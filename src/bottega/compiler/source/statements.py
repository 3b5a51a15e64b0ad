"""What a statement of a Python file binds, and what it takes from the file around it: read from the text, nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from symtable import symtable


def binds(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        return [name.id for name in names if isinstance(name.ctx, ast.Store)]
    return []


def makers(body: Iterable[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """By name, the statements of a file that make what it stands for when the file is imported: that bind it, whatever `try` or `if` they stand
    in, and that change it afterwards, as `TABLE["a"] = 1`, `TABLE.update(a=1)` and `Block.eps = 1` do."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in dict.fromkeys(_makes(statement)):
            found.setdefault(name, []).append(statement)
    return found


def _makes(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        if isinstance(statement, ast.If) and "__name__" in {
            node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
        }:
            return  # what a script does
        if isinstance(statement, ast.For):
            yield from (node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name))
        blocks = (getattr(statement, block, []) for block in ("body", "orelse", "finalbody"))
        handlers = (handler.body for handler in getattr(statement, "handlers", []))
        for block in (*blocks, *handlers):
            for inner in block:
                yield from _makes(inner)
        return
    yield from binds(statement)
    changed: list[ast.expr] = []
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        changed += statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        changed.append(statement.value.func)
    for place in changed:
        owner = place
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Name) and (owner is not place or isinstance(statement, ast.AugAssign)):
            yield owner.id


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
