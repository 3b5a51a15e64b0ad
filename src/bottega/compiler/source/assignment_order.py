"""Locals that a function reads before they can have a value: in straight lines only, where no branch and no earlier round may have given one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from bottega.compiler.source.scopes import COMPREHENSIONS, FUNCTIONS

_APART = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITH = (ast.With, ast.AsyncWith)
_UNFOLLOWED = (ast.Try, ast.TryStar, ast.Match, *FUNCTIONS, ast.ClassDef)


def read_too_early(function: ast.FunctionDef | ast.AsyncFunctionDef, known: frozenset[str] = frozenset()) -> list[str]:
    """Names, in order. `known`: what the function can read all the same, because its language looks outside too."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    have = {one.arg for one in every if one is not None} | known
    outside = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    own = _bound(function.body) - have - outside
    found = list(_early(function.body, have, own))
    never = own - _bound(function.body, augmented=False)
    return list(dict.fromkeys([*found, *sorted(never)]))


def _early(body: Sequence[ast.stmt], have: set[str], own: set[str], in_loop: bool = False) -> Iterator[str]:
    """What is read too early, in the order of the text. `have` grows by everything that a statement may bind."""
    for statement in body:
        if isinstance(statement, ast.If) and not in_loop:
            yield from _missing([statement.test], have, own)
            have |= _bound([statement.test])
            yield from _early(statement.body, set(have), own)
            yield from _early(statement.orelse, set(have), own)
        elif isinstance(statement, _WITH) and not in_loop:
            yield from _missing([item.context_expr for item in statement.items], have | _bound(statement.items), own)
            yield from _early(statement.body, have | _bound(statement.items), own)
        elif isinstance(statement, _LOOPS) and not in_loop:
            head = statement.test if isinstance(statement, ast.While) else statement.iter
            yield from _missing([head], have, own)
            target = set() if isinstance(statement, ast.While) else _bound([statement.target])
            yield from _early(statement.body, have | target | _bound([head]), own, in_loop=True)
        elif not isinstance(statement, (ast.If, *_WITH, *_LOOPS, *_UNFOLLOWED)):
            yield from _missing([statement], have, own)
        have |= _bound([statement])


def _missing(nodes: Iterable[ast.AST], have: set[str], own: set[str]) -> Iterator[str]:
    for node in _walk(nodes):
        if isinstance(node, ast.NamedExpr):
            have = have | {node.target.id}
    for node in _walk(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            name = node.id
        else:
            continue
        if name in own and name not in have:
            yield name


def _bound(nodes: Iterable[ast.AST], augmented: bool = True) -> set[str]:
    """What they may bind in their own scope."""
    nodes = list(nodes)
    found: set[str] = set()
    for node in _walk(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        elif isinstance(node, COMPREHENSIONS):
            found |= {inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)}
    if augmented:
        return found
    added = [node.target.id for node in _walk(nodes) if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)]
    stored = [node.id for node in _walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name for name in found if name not in added or stored.count(name) > added.count(name)}


def _walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Without what has a scope or a time of its own, and without annotations."""
    pending = list(nodes)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.AnnAssign):
            pending += [part for part in (node.value, node.target) if part is not None]
        elif not isinstance(node, _APART):
            pending += list(ast.iter_child_nodes(node))[::-1]
