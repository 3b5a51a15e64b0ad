"""An answer made whole: what it reads and does not define comes from the task's file, so that a writer need not repeat the task.

Names inside functions are looked up when these are called; bases, decorators and expressions of the module are looked up at once.
Only the latter decide where a definition of the task has to stand.
"""

from __future__ import annotations

import ast
import builtins
import functools
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from symtable import symtable

from bottega.agents.code import parsed
from bottega.core.errors import TaskError
from bottega.core.statements import binds, reads
from bottega.core.task import normalised, top_level_names

_BUILTIN = frozenset(dir(builtins)) | {"__file__", "__class__"}
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_BLANK = re.compile(r"\A(?:[ \t\f]*\r?\n)+")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def completed(source: str, task_source: str) -> str:
    """The answer with what it takes from the task. One that takes nothing, or does not parse, is returned as it is."""
    tree, task = parsed(source), _task(task_source)
    if tree is None or task is None or not tree.body:
        return source
    try:
        read, bound = scope(source)
        parts, stars = task.needed(read, bound)
        if not parts and not stars:
            return source
        whole = _Answer(source, tree.body).with_parts(parts, stars, task.future)
    except _UNREADABLE:
        return source
    return whole if parsed(whole) is not None else source


@dataclass(frozen=True, eq=False)
class _Part:
    """A statement of the task's file; of an import, one of its names."""

    names: tuple[str, ...]
    text: str
    reads: frozenset[str] = frozenset()
    at_once: frozenset[str] = frozenset()
    """Names that must be bound before it is."""
    followed: frozenset[str] = frozenset()
    """Those of them that it may call."""
    module: str = ""
    """What is imported, where it is an import."""


@dataclass(frozen=True)
class _Task:
    parts: tuple[_Part, ...]
    bound: dict[str, list[_Part]]
    stars: tuple[str, ...]
    future: tuple[str, ...]

    def needed(self, read: set[str], bound: set[str]) -> tuple[list[_Part], tuple[str, ...]]:
        """What these names need, in the task's order, and the imports of everything, where something may come from them."""
        found: set[_Part] = set()
        unknown = {name for name in read - bound - _BUILTIN if name not in self.bound}
        pending = [name for name in read - bound - _BUILTIN if name in self.bound]
        while pending:
            for part in self.bound[pending.pop()]:
                if part not in found:
                    found.add(part)
                    open_names = part.reads - bound
                    pending += [name for name in open_names if name in self.bound]
                    unknown |= {name for name in open_names - _BUILTIN if name not in self.bound}
                    found |= {inner for name in part.reads & bound for inner in self.bound.get(name, ()) if _is_inner(inner)}
        return [part for part in self.parts if part in found], self.stars if unknown else ()


def _is_inner(part: _Part) -> bool:
    """`import scipy.special`: it binds the package alone, and an answer's `import scipy` does not load the part."""
    return "." in part.module and part.names == (part.module.split(".")[0],)


@functools.lru_cache(256)
def _task(source: str) -> _Task | None:
    try:
        tree = parsed(normalised(source))
        return None if tree is None else _read_task(tree.body)
    except (TaskError, *_UNREADABLE):
        return None


def _read_task(body: Sequence[ast.stmt]) -> _Task:
    parts: list[_Part] = []
    stars: list[str] = []
    future: list[str] = []
    imported = {name for statement in body if isinstance(statement, _IMPORTS) for name in binds(statement)}
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            future.append(ast.unparse(statement))
        elif isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            stars.append(ast.unparse(statement))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            parts += _import_parts(statement)
        elif names := _bound_by(statement, imported):
            at_once, followed = _at_once(statement)
            parts.append(_Part(names, ast.unparse(statement), frozenset(reads(statement)), at_once, followed))
    bound: dict[str, list[_Part]] = {}
    for part in parts:
        for name in part.names:
            bound.setdefault(name, []).append(part)
    return _Task(tuple(parts), bound, tuple(stars), tuple(future))


def _import_parts(statement: ast.Import | ast.ImportFrom) -> Iterable[_Part]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            one: ast.stmt = ast.Import([alias])
            module = "" if alias.asname else alias.name
        else:
            one, module = ast.ImportFrom(statement.module, [alias], statement.level), statement.module or ""
        yield _Part(tuple(binds(one)), ast.unparse(one), module=module or "import")


def _bound_by(statement: ast.stmt, imported: set[str]) -> tuple[str, ...]:
    """Setting an option of an imported library binds nothing; filling a table of the task's own belongs to the table."""
    if isinstance(statement, _ASSIGNMENTS):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        return tuple(node.id for node in names if isinstance(node.ctx, ast.Store) or node.id not in imported)
    if isinstance(statement, ast.If) and "__name__" in reads(statement.test):
        return ()
    return tuple(sorted(top_level_names(ast.Module([statement], []))))


def scope(source: str) -> tuple[set[str], set[str]]:
    """Names that a file reads anywhere and does not bind where it does, and names that running it binds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in C++ strings that are not raw
        outermost = symtable(source, "answer", "exec")
    symbols = outermost.get_symbols()
    read = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    pending = outermost.get_children()
    while pending:
        table = pending.pop()
        read |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        pending += table.get_children()
    return read, {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def _at_once(statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """Names that are looked up while a statement runs, outside the bodies of functions; and those of them that may be called."""
    found: set[str] = set()
    bases = {id(base) for base in statement.bases} if isinstance(statement, ast.ClassDef) else set()
    followed: set[str] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
            if id(node) not in bases:
                followed.add(node.id)
        elif isinstance(node, _FUNCTIONS):
            pending += [*getattr(node, "decorator_list", []), node.args]
            pending += [node.returns] if isinstance(node, ast.FunctionDef) and node.returns else []
        else:
            pending += ast.iter_child_nodes(node)
    return frozenset(found), frozenset(followed)


class _Answer:
    def __init__(self, source: str, body: Sequence[ast.stmt]) -> None:
        self.body = body
        self.lines = list(io.StringIO(source, newline=""))  # line ends as the parser counts them
        opening = 1 if _is_text(body[0]) else 0
        while opening < len(body) and _is_future(body[opening]):
            opening += 1
        head = opening
        while head < len(body) and isinstance(body[head], _IMPORTS):
            head += 1
        self.opening, self.head = self._free(opening), self._free(head)

    def with_parts(self, parts: Sequence[_Part], stars: Sequence[str], future: Sequence[str]) -> str:
        present = {ast.unparse(statement) for statement in self.body if isinstance(statement, _IMPORTS)}
        defined = [part for part in parts if not part.module]
        late = self._late(defined)
        # Stars stand before the answer's imports: what the answer imports by name wins.
        opening = [*(future if defined else ()), *stars]
        imports = list(dict.fromkeys(part.text for part in parts if part.module))
        places = [
            (self.opening, "\n".join(text for text in opening if text not in present), False),
            (self.head, "\n".join(text for text in imports if text not in present), False),
            (self.head, _block([part for part in defined if part not in late]), True),
            (self._first_need(late), _block([part for part in defined if part in late]), True),
        ]
        text, at = "", 0
        for index, added, apart in places:
            if added:
                line = self._line(index)
                text = _joined(text, "".join(self.lines[at:line]))
                glued = not apart and (not text or (index > 0 and isinstance(self.body[index - 1], _IMPORTS)))
                text, at = text.rstrip() + ("\n" if text and glued else "\n\n\n" if text else "") + added + "\n", line
                if apart or (index < len(self.body) and not isinstance(self.body[index], _IMPORTS)):
                    text += "\n\n"
        return _joined(text, "".join(self.lines[at:]))

    def _free(self, index: int) -> int:
        """A statement before which one can write: not one behind a semicolon."""
        while 0 < index < len(self.body) and self._first_line(index) <= (self.body[index - 1].end_lineno or 0):
            index -= 1
        return index

    def _first_line(self, index: int) -> int:
        statement = self.body[index]
        decorated = isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and statement.decorator_list
        return decorated[0].lineno if decorated else statement.lineno

    def _line(self, index: int) -> int:
        """How many lines stay before what is put before this statement. Comments stay with what follows them."""
        if index:
            return self.body[index - 1].end_lineno or 0
        line = self._first_line(0) - 1
        while line and self.lines[line - 1].startswith("#") and not self.lines[line - 1].startswith("#!"):
            line -= 1
        return line

    def _late(self, parts: Sequence[_Part]) -> set[_Part]:
        """Parts that cannot stand before the answer's code, because they need something of it at once."""
        names = {name for statement in self.body[self.head :] for name in top_level_names(ast.Module([statement], []))}
        late: set[_Part] = set()
        while True:
            found = {part for part in parts if part not in late and self._at_once(part.at_once, part.followed, parts) & names}
            if not found:
                return late
            late |= found
            names = names | {name for part in found for name in part.names}

    def _first_need(self, late: set[_Part]) -> int:
        """The first statement that cannot run before these parts."""
        names = {name for part in late for name in part.names}
        for index in range(self.head, len(self.body)) if late else ():
            if self._at_once(*_at_once(self.body[index]), tuple(late)) & names:
                return self._free(index)
        return len(self.body)

    def _at_once(self, found: frozenset[str], followed: frozenset[str], parts: Sequence[_Part]) -> set[str]:
        """With what the functions read that are called meanwhile."""
        every, pending, seen = set(found), list(followed), set(followed)
        while pending:
            name = pending.pop()
            inside = {read for part in parts if name in part.names for read in part.reads}
            inside |= {read for statement in self.body if name in binds(statement) for read in reads(statement)}
            every |= inside
            pending += inside - seen
            seen |= inside
        return every


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _block(parts: Sequence[_Part]) -> str:
    """Constants that follow each other stand together."""
    text = ""
    for before, part in zip([None, *parts], parts):
        plain = before is not None and "\n" not in before.text and "\n" not in part.text
        text += ("" if before is None else "\n" if plain else "\n\n\n") + part.text
    return text


def _joined(text: str, more: str) -> str:
    """Where blank lines were written, those of what follows go."""
    return text + (_BLANK.sub("", more, count=1) if text.endswith("\n\n") or not text.strip() else more)
