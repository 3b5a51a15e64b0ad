"""Where in an answer's file a definition from elsewhere can stand: behind the imports, unless it needs something of the answer first.

Names inside functions are looked up when these are called; bases, decorators and expressions of the module are looked up at once.
Only the latter decide where a definition has to stand.
"""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.compiler.source.statements import binds, reads
from bottega.core.task import top_level_names

_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BLANK = re.compile(r"\A(?:[ \t\f]*\r?\n)+")


@dataclass(frozen=True, eq=False)
class Piece:
    """A statement of another file; of an import, one of its names."""

    names: tuple[str, ...]
    text: str
    reads: frozenset[str] = frozenset()
    at_once: frozenset[str] = frozenset()
    """Names that must be bound before it is."""
    followed: frozenset[str] = frozenset()
    """Those of them that it may call."""
    module: str = ""
    """What is imported, where it is an import."""


def needs_at_once(statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
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


class AnswerFile:
    """The lines of an answer, and the places between its statements where something may be put."""

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

    def with_pieces(self, pieces: Sequence[Piece], stars: Sequence[str], future: Sequence[str]) -> str:
        present = {ast.unparse(statement) for statement in self.body[: self.head] if isinstance(statement, _IMPORTS)}
        defined = [piece for piece in pieces if not piece.module]
        late = self._late(defined)
        # Stars stand before the answer's imports: what the answer imports by name wins.
        opening = [*(future if defined else ()), *stars]
        imports = list(dict.fromkeys(piece.text for piece in pieces if piece.module))
        places = [
            (self.opening, "\n".join(text for text in opening if text not in present), False),
            (self.head, "\n".join(text for text in imports if text not in present), False),
            (self.head, _block([piece for piece in defined if piece not in late]), True),
            (self._first_need(late), _block([piece for piece in defined if piece in late]), True),
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

    def _late(self, pieces: Sequence[Piece]) -> set[Piece]:
        """Pieces that cannot stand before the answer's code, because they need something of it at once."""
        names = {name for statement in self.body[self.head :] for name in top_level_names(ast.Module([statement], []))}
        late: set[Piece] = set()
        while True:
            found = {
                piece for piece in pieces if piece not in late and self._at_once(piece.at_once, piece.followed, pieces) & names
            }
            if not found:
                return late
            late |= found
            names = names | {name for piece in found for name in piece.names}

    def _first_need(self, late: set[Piece]) -> int:
        """The first statement that cannot run before these pieces."""
        names = {name for piece in late for name in piece.names}
        for index in range(self.head, len(self.body)) if late else ():
            if self._at_once(*needs_at_once(self.body[index]), tuple(late)) & names:
                return self._free(index)
        return len(self.body)

    @functools.cached_property
    def _inside(self) -> dict[str, set[str]]:
        """By every name of the answer, what the statements read that bind it."""
        found: dict[str, set[str]] = {}
        for statement in self.body:
            for name in binds(statement):
                found.setdefault(name, set()).update(reads(statement))
        return found

    def _at_once(self, found: frozenset[str], followed: frozenset[str], pieces: Sequence[Piece]) -> set[str]:
        """With what the functions read that are called meanwhile."""
        every, pending, seen = set(found), list(followed), set(followed)
        while pending:
            name = pending.pop()
            inside = {read for piece in pieces if name in piece.names for read in piece.reads}
            inside |= self._inside.get(name, set())
            every |= inside
            pending += inside - seen
            seen |= inside
        return every


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _block(pieces: Sequence[Piece]) -> str:
    """Constants that follow each other stand together."""
    text = ""
    for before, piece in zip([None, *pieces], pieces):
        plain = before is not None and "\n" not in before.text and "\n" not in piece.text
        text += ("" if before is None else "\n" if plain else "\n\n\n") + piece.text
    return text


def _joined(text: str, more: str) -> str:
    """Where blank lines were written, those of what follows go."""
    return text + (_BLANK.sub("", more, count=1) if text.endswith("\n\n") or not text.strip() else more)
