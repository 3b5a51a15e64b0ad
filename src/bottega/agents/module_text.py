"""A task as a small model reads it: the module and what it needs, without prose, types and the functions that make its inputs.

The sketch beside it tells shapes and options, so the text need not; without a sketch the whole task is shown.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize

from bottega.core.errors import TaskError
from bottega.core.statements import binds, reads
from bottega.core.task import normalised, parsed

MODEL = "Model"
_PLAIN = ast.ClassDef | ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign


def task_text(source: str, sketch: str, style: str) -> str:
    return module_text(source) if style == "terse" and sketch else source


@functools.lru_cache(256)
def module_text(source: str) -> str:
    """Without docstrings and comments at least; a file that does more than define things keeps everything else."""
    try:
        bare = normalised(source)
        tree = parsed(bare, "task")
    except TaskError:
        return source
    bound: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in binds(statement):
            bound.setdefault(name, []).append(statement)
    models = bound.get(MODEL, [])
    if not models or not all(isinstance(statement, _PLAIN) for statement in tree.body):
        return bare + "\n"
    needed: set[ast.stmt] = set()
    pending = [*models, *bound.get("*", [])]
    while pending:
        statement = pending.pop()
        if statement not in needed:
            needed.add(statement)
            pending += [found for name in reads(statement) for found in bound.get(name, [])]
    for node in ast.walk(tree):
        _without_types(node)
    return "\n\n".join(_blocks([statement for statement in tree.body if statement in needed])) + "\n"


def _without_types(node: ast.AST) -> None:
    if isinstance(node, ast.FunctionDef):
        node.returns = None
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        for argument in filter(None, every):
            argument.annotation = None
    elif isinstance(node, ast.ClassDef):
        for inside in ast.walk(node):
            if _says_own_super(inside, node.name):
                inside.args = []  # type: ignore[attr-defined]


def _says_own_super(node: ast.AST, name: str) -> bool:
    """`super(Model, self)` in Model; of another class it means something else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "super" or not node.args:
        return False
    return isinstance(node.args[0], ast.Name) and node.args[0].id == name


def _blocks(statements: list[ast.stmt]) -> list[str]:
    """Lines that belong together, definitions each for itself."""
    found: list[str] = []
    together = False
    for statement in statements:
        line = not isinstance(statement, ast.ClassDef | ast.FunctionDef)
        text = ast.unparse(statement)
        if line and together:
            found[-1] += "\n" + text
        else:
            found.append(text)
        together = line
    return found


def without_prose(source: str) -> str:
    """The same file without comments and docstrings, otherwise as it was written. A file that does not parse stays as it is."""
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return source
    lines = source.splitlines(keepends=True)
    gone: set[int] = set()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            number = token.start[0] - 1
            kept = lines[number][: token.start[1]].rstrip()
            lines[number] = kept + "\n" if kept else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            if len(node.body) > 1 and first.end_lineno is not None:
                gone |= set(range(first.lineno - 1, first.end_lineno))
                after = first.end_lineno
                while after < len(lines) and not lines[after].strip():
                    gone.add(after)
                    after += 1
    return "".join(line for number, line in enumerate(lines) if number not in gone).lstrip("\n")
