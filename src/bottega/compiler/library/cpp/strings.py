"""The C++ sources in a Python file: string literals that are given to `cpp(...)`, at once or by name."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable

from bottega.compiler.library.cpp import source as cpp_source
from bottega.compiler.source.text import parsed

_LITERAL = re.compile(r"([rR]?)(\"\"\"|''')(\\\n)?(.*?)\2", re.S)


def with_functions(source: str) -> str:
    """The file with the functions of the kernel library that its C++ calls and does not define."""
    return _changed(source, cpp_source.with_functions)


def without_functions(source: str) -> str:
    return _changed(source, cpp_source.without_functions)


def _changed(source: str, change: Callable[[str], str]) -> str:
    tree = parsed(source) if "cpp" in source else None
    if tree is None:
        return source
    encoded = [line.encode() for line in io.StringIO(source, newline="")]
    starts = [0]
    for line in encoded:
        starts.append(starts[-1] + len(line))
    text = b"".join(encoded)
    for node in sorted(_literals(tree), key=lambda node: -node.lineno):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        match = _LITERAL.fullmatch(text[first:last].decode())
        if match is None or (not match[1] and "\\" in match[4]) or (match[1] and match[3]):
            continue  # escapes, or several strings in one
        changed = change(match[4])
        if changed != match[4] and match[2] not in changed:
            literal = f"{match[1]}{match[2]}{match[3] or ''}{changed}{match[2]}"
            text = text[:first] + literal.encode() + text[last:]
    whole = text.decode()
    return whole if parsed(whole) is not None else source


def _literals(tree: ast.Module) -> list[ast.Constant]:
    """Each once. A name counts where the file binds it nowhere else."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_cpp(node.func)]
    named = {node.args[0].id for node in calls if node.args and isinstance(node.args[0], ast.Name)}
    stored: dict[str, int] = {}
    for node in ast.walk(tree) if named else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
    values: list[ast.expr] = [node.args[0] for node in calls if node.args]
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            values += [statement.value] if name in named and stored.get(name) == 1 else []
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def _is_cpp(function: ast.expr) -> bool:
    return (function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")) == "cpp"
