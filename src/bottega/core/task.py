"""A task in KernelBench's contract: source text that defines `Model`, `get_inputs()` and `get_init_inputs()`.

Both functions return arguments: a list of them, a dictionary by name, or a pair of the two (`core/arguments.py`, docs/reference/tasks.md).
Identity is a hash of the syntax tree without docstrings, so that comments and white space do not make a new task.
Reading a task never runs it: whatever needs to run happens in a sandboxed process of the judge.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.errors import TaskError

REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")
BESIDE = "_bottega_beside"
"""The function in a task's text that provides modules which lay beside the user's file. Statements with it come before all others."""


@dataclass(frozen=True)
class Task:
    source: str
    name: str = "task"
    """A short label for people: the file's stem, or the data set's name for the problem."""
    origin: str = ""
    """Where it came from, for messages: a path, or data set and index."""
    level: int | None = None
    tags: tuple[str, ...] = field(default=())
    """Operator families, data type, size: whatever a filter or a retriever may ask for."""

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that stay the same under reformatting."""
        return hashlib.sha256(normalised(self.source, self.label).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        return self.origin or self.name

    def validate(self) -> Task:
        """Raise `TaskError` unless the source parses and defines the three names of the contract."""
        tree = parsed(self.source, self.label)
        names = top_level_names(tree)
        missing = [name for name in REQUIRED_NAMES if name not in names]
        if missing and "*" not in names:  # what a star brings is seen when it is imported
            raise TaskError(
                f"{self.label}: defines no {' and no '.join(missing)}; a task file defines "
                "class Model, get_inputs() and get_init_inputs()"
            )
        return self


def parsed(source: str, label: str) -> ast.Module:
    if len(source) > SOURCE_LIMIT:
        raise TaskError(f"{label}: the task file is larger than {SOURCE_LIMIT >> 10} KiB; draw large data in get_inputs()")
    if not source.strip():
        raise TaskError(f"{label}: the task file is empty")
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{label}: line {error.lineno}: the task does not parse: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{label}: the task does not parse: {error}") from None


def top_level_names(tree: ast.Module) -> set[str]:
    """Names that running the module would bind: definitions, assignments and imports, also inside if, try, except and match blocks."""
    names: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        else:
            blocks = (ast.stmt, ast.excepthandler, ast.match_case)
            pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, blocks))
    return names


def normalised(source: str, label: str = "task") -> str:
    """The source as its syntax tree prints it, without docstrings and comments."""
    tree = parsed(source, label)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[1:] or [ast.Pass()]
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError, MemoryError) as error:  # a number of a million digits, a sum of a thousand terms
        raise TaskError(f"{label}: the task cannot be read: {error}; write it with shorter expressions") from None
