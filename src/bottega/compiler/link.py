"""Linking an answer: what it reads and does not define is inlined from the task's file or from the kernel library.

So a writer need not repeat the task, and may call library functions without writing them. Judge, store and user get the whole file.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bottega.compiler.library.cpp.strings import with_functions
from bottega.compiler.library.insert import with_library_functions
from bottega.compiler.source.names import BUILTIN, names_of
from bottega.compiler.source.placement import AnswerFile, Insertion, needs_at_once
from bottega.compiler.source.statements import binds, reads
from bottega.compiler.source.text import compiles, parsed
from bottega.core.errors import TaskError
from bottega.core.task import normalised, top_level_names

_IMPORTS = (ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@functools.lru_cache(512)
def linked(source: str, task_source: str, library: bool = True) -> str:
    """The answer with what it uses of the task's file and, with `library`, of the kernel library. An answer that uses nothing of them, or
    does not parse, is returned unchanged. Kept: of a group of samples many are alike, and linking is most of reading one."""
    task = _task(task_source)
    if task is None:
        return source
    whole = source
    for step in (_with_task, _with_library) if library else (_with_task,):
        try:
            whole = step(whole, task)
        except _UNREADABLE:
            return whole
    return whole


def names_kept(task_source: str) -> frozenset[str] | None:
    """Names of a task's file, which no library function may take; None where they are not known."""
    task = _task(task_source)
    return None if task is None or task.stars else task.names


def _with_task(source: str, task: _Task) -> str:
    tree = parsed(source)
    if tree is None or not tree.body:
        return source
    names = names_of(source, tree.body)
    pieces, stars = task.needed(names.read, names.bound)
    if not pieces and not stars:
        return source
    whole = AnswerFile(source, tree.body).with_pieces(pieces, stars, task.future)
    return whole if compiles(whole) else source


def _with_library(source: str, task: _Task) -> str:
    return with_functions(source if task.stars else with_library_functions(source, task.names))


@dataclass(frozen=True)
class _Task:
    pieces: tuple[Insertion, ...]
    bound: dict[str, list[Insertion]]
    stars: tuple[str, ...]
    future: tuple[str, ...]
    names: frozenset[str]
    """All that it binds, also what no answer is given."""

    def needed(self, read: frozenset[str], bound: frozenset[str]) -> tuple[list[Insertion], tuple[str, ...]]:
        """What these names need, in the task's order, and the imports of everything, where something may come from them."""
        found: set[Insertion] = set()
        unknown = {name for name in read - bound - BUILTIN if name not in self.bound}
        pending = [name for name in read - bound - BUILTIN if name in self.bound]
        while pending:
            for piece in self.bound[pending.pop()]:
                if piece not in found:
                    found.add(piece)
                    open_names = piece.reads - bound
                    pending += [name for name in open_names if name in self.bound]
                    unknown |= {name for name in open_names - BUILTIN if name not in self.bound}
                    found |= {inner for name in piece.reads & bound for inner in self.bound.get(name, ()) if _is_inner(inner)}
        return [piece for piece in self.pieces if piece in found], self.stars if unknown else ()


def _is_inner(piece: Insertion) -> bool:
    """`import scipy.special`: it binds the package alone, and an answer's `import scipy` does not load the piece."""
    return "." in piece.module and piece.names == (piece.module.split(".")[0],)


@functools.lru_cache(256)
def _task(source: str) -> _Task | None:
    try:
        tree = parsed(normalised(source))
        return None if tree is None else _read_task(tree.body)
    except (TaskError, *_UNREADABLE):
        return None


def _read_task(body: Sequence[ast.stmt]) -> _Task:
    pieces: list[Insertion] = []
    stars: list[str] = []
    future: list[str] = []
    imported = {name for statement in body if isinstance(statement, _IMPORTS) for name in binds(statement)}
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            future.append(ast.unparse(statement))
        elif isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            stars.append(ast.unparse(statement))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            pieces += _import_pieces(statement)
        elif names := _bound_by(statement, imported):
            at_once, followed = needs_at_once(statement)
            pieces.append(Insertion(names, ast.unparse(statement), frozenset(reads(statement)), at_once, followed))
    bound: dict[str, list[Insertion]] = {}
    for piece in pieces:
        for name in piece.names:
            bound.setdefault(name, []).append(piece)
    return _Task(tuple(pieces), bound, tuple(stars), tuple(future), frozenset(top_level_names(ast.Module(list(body), []))))


def _import_pieces(statement: ast.Import | ast.ImportFrom) -> Iterable[Insertion]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            one: ast.stmt = ast.Import([alias])
            module = "" if alias.asname else alias.name
        else:
            one, module = ast.ImportFrom(statement.module, [alias], statement.level), statement.module or ""
        yield Insertion(tuple(binds(one)), ast.unparse(one), module=module or "import")


def _bound_by(statement: ast.stmt, imported: set[str]) -> tuple[str, ...]:
    """Setting an option of an imported library binds nothing; filling a table of the task's own belongs to the table."""
    if isinstance(statement, _ASSIGNMENTS):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        return tuple(node.id for node in names if isinstance(node.ctx, ast.Store) or node.id not in imported)
    if isinstance(statement, ast.If) and "__name__" in reads(statement.test):
        return ()
    return tuple(sorted(top_level_names(ast.Module([statement], []))))
