"""A definition's text with some of the names that it takes from its file under other names, all else as it was written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Arguments and local names that happen to be the same stay."""
    if not names:
        return text
    lines = [line.encode() for line in text.split("\n")]
    (statement,) = ast.parse(text).body
    places = [(node.lineno - 1, node.col_offset, node.id) for node in _of_the_file(statement, frozenset()) if node.id in names]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.name in names:
        word = b"class" if isinstance(statement, ast.ClassDef) else b"def"
        line = lines[statement.lineno - 1]
        at = line.index(statement.name.encode(), line.index(word) + len(word))
        places.append((statement.lineno - 1, at, statement.name))
    for row, column, name in sorted(places, reverse=True):
        line = lines[row]
        lines[row] = line[:column] + names[name].encode() + line[column + len(name.encode()) :]
    return b"\n".join(lines).decode()


def _of_the_file(node: ast.AST, hidden: frozenset[str]) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        if node.id not in hidden:
            yield node
    elif isinstance(node, _SCOPES):
        outside = [*getattr(node, "decorator_list", [])]
        if isinstance(node, _FUNCTIONS):
            arguments = node.args
            outside += [*arguments.defaults, *(value for value in arguments.kw_defaults if value)]
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            outside += [argument.annotation for argument in every if argument and argument.annotation]
            outside += [node.returns] if isinstance(node, ast.FunctionDef) and node.returns else []
            inside: Sequence[ast.AST] = node.body if isinstance(node.body, list) else [node.body]
            own = {argument.arg for argument in every if argument} | _stored(inside)
        elif isinstance(node, ast.ClassDef):
            outside += [*node.bases, *(keyword.value for keyword in node.keywords)]
            inside, own = node.body, set()
        else:
            inside = list(ast.iter_child_nodes(node))
            own = _stored(inside)
        for child in outside:
            yield from _of_the_file(child, hidden)
        for child in inside:
            yield from _of_the_file(child, hidden | own)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _of_the_file(child, hidden)


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are bound right in this scope."""
    found: set[str] = set()
    shared: set[str] = set()
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.Global):
            shared |= set(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return found - shared
