"""Where the names of a file are bound and read, scope by scope: read from the text, nothing is run.

In doubt a name counts as bound: what is said to be missing must be missing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from bottega.compiler.source.names import BUILTIN

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BINDS_UNSEEN = frozenset({"exec", "globals", "locals", "vars", "builtins", "__builtins__"})
"""Who has these can bind names that no text shows."""
_CATCHES_MISSING = frozenset({"NameError", "UnboundLocalError", "Exception", "BaseException"})


@dataclass(eq=False)
class Scope:
    name: str
    kind: Literal["file", "class", "function", "comprehension"]
    outer: Scope | None = None
    bound: set[str] = field(default_factory=set)
    declared_global: set[str] = field(default_factory=set)

    def finds(self, name: str) -> bool:
        if name in self.bound:
            return True
        scope, direct = self.outer, self.kind == "comprehension"
        while scope is not None:
            if name in scope.bound and (scope.kind != "class" or direct):
                return True
            direct = direct and scope.kind == "comprehension"
            scope = scope.outer
        return False


@dataclass(frozen=True)
class Read:
    scope: Scope
    name: str


class Scopes(ast.NodeVisitor):
    """Of one file. Annotations are left out: they may never be evaluated."""

    def __init__(self, tree: ast.Module) -> None:
        self.file = Scope("the file", "file")
        self.bindings: Counter[str] = Counter()
        """How often each name is bound, over all scopes."""
        self.reads: list[Read] = []
        self.open = False
        """Whether names may come from where nobody sees them: an import of everything, `exec`."""
        self._now, self._guarded = self.file, False
        self.visit(tree)

    def unknown(self) -> list[Read]:
        """Reads of names that are bound nowhere, each once for each scope's name."""
        if self.open:
            return []
        missing = [
            read
            for read in self.reads
            if not (read.name in BUILTIN or read.name.startswith("__") or read.scope.finds(read.name))
        ]
        return list({(read.scope.name, read.name): read for read in missing}.values())

    def _bind(self, name: str) -> None:
        self.bindings[name] += 1
        (self.file if name in self._now.declared_global else self._now).bound.add(name)

    def _within(self, scope: Scope, nodes: Iterable[ast.AST]) -> None:
        before, self._now = self._now, scope
        for node in nodes:
            self.visit(node)
        self._now = before

    def _each(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _function(self, name: str, arguments: ast.arguments, body: Iterable[ast.AST], parameters: Iterable[ast.AST]) -> None:
        self._each([*arguments.defaults, *arguments.kw_defaults])
        scope = Scope(name, "function", self._now)
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        names = [one.arg for one in every if one is not None] + [str(getattr(one, "name", "")) for one in parameters]
        scope.bound.update(names)
        self.bindings.update(names)
        guarded, self._guarded = self._guarded, False
        self._within(scope, body)
        self._guarded = guarded

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name)
        self._each(node.decorator_list)
        self._function(node.name, node.args, node.body, getattr(node, "type_params", ()))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(self._now.name, node.args, [node.body], ())

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        self._each([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        scope = Scope(node.name, "class", self._now)
        scope.bound.update(str(getattr(one, "name", "")) for one in getattr(node, "type_params", ()))
        self._within(scope, node.body)

    def _comprehension(self, node: ast.AST) -> None:
        self._within(Scope(self._now.name, "comprehension", self._now), ast.iter_child_nodes(node))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        before = self._now
        while self._now.kind == "comprehension" and self._now.outer is not None:
            self._now = self._now.outer
        self._bind(node.target.id)
        self._now = before
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.open |= node.id in _BINDS_UNSEEN
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)
        elif not self._guarded:
            self.reads.append(Read(self._now, node.id))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._each([node.target, node.value])

    def visit_Global(self, node: ast.Global) -> None:
        self._now.declared_global.update(node.names)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.open |= alias.name in ("*", "builtins")
            self._bind(alias.asname or alias.name.split(".")[0])

    visit_ImportFrom = visit_Import

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        before = self._guarded
        self._guarded = before or any(catches_missing(handler) for handler in node.handlers)
        self._each(node.body)
        self._guarded = before
        self._each([*node.handlers, *node.orelse, *node.finalbody])

    visit_TryStar = visit_Try

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self._bind(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self._bind(node.rest)
        super().generic_visit(node)


def catches_missing(handler: ast.ExceptHandler) -> bool:
    """Whether a name that is not there may be expected."""
    if handler.type is None:
        return True
    return bool(_CATCHES_MISSING & {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)})
