"""A candidate without what the task's file or the kernel library has: the inverse of `link`, for prompts and for training examples.

`ModelNew` inherits `Model` where it has the same constructor, or the same with more at its end. All else stays as it was written.
"""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bottega.compiler.library.cpp.strings import without_functions
from bottega.compiler.library.insert import without_library_functions
from bottega.compiler.link import names_kept
from bottega.compiler.source.names import imported, names_of
from bottega.compiler.source.statements import binds, reads
from bottega.compiler.source.text import defines_model, parsed
from bottega.core.task import top_level_names

MODEL, NEW = "Model", "ModelNew"
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_EMPTY = ast.FunctionDef(
    "__init__",
    ast.parse("lambda self: 0", mode="eval").body.args,  # type: ignore[attr-defined]
    ast.parse("super().__init__()").body,
    [],
)
"""The constructor of a Model that has none."""
_PRIVATE = re.compile(r"\.__(?!\w*__\b)\w")
"""`self.__table` is another name in another class."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def stripped(source: str, task_source: str) -> str:
    """Returns what `linked` makes whole again. Where `ModelNew` is constructed in another way than `Model`, only library functions are removed."""
    for steps in (_STEPS, *((step,) for step in _STEPS)):
        short = source
        for step in steps:
            with suppress(*_UNREADABLE):
                short = step(short, task_source)
        if short != source and defines_model(short):
            return short
    return source


def _without_library(source: str, task_source: str) -> str:
    kept = names_kept(task_source)
    source = source if kept is None else without_library_functions(source, kept)
    return source if _task(task_source) is None else without_functions(source)


def _without_task(source: str, task_source: str) -> str:
    tree, task = parsed(source), _task(task_source)
    short = _File(source, tree.body, task).stripped() if tree and task else None
    return source if short is None else short


_STEPS = (_without_library, _without_task)


@dataclass(frozen=True)
class _Task:
    model: ast.ClassDef
    constructor: ast.FunctionDef | None
    same: dict[str, set[str]]
    """By the name of a definition, how it may look in a file that took it over."""
    members: dict[str, ast.stmt]
    """Of Model."""
    imports: dict[str, str]


@functools.lru_cache(256)
def _task(source: str) -> _Task | None:
    tree = parsed(source)
    models = [node for node in tree.body if MODEL in binds(node)] if tree else []
    if tree is None or len(models) != 1 or not isinstance(models[0], ast.ClassDef) or models[0].decorator_list:
        return None
    model = models[0]
    _make_bare(tree)
    same: dict[str, set[str]] = {}
    imports: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports |= imported(statement)
        else:
            for name in binds(statement):
                same.setdefault(name, set()).update(_looks(statement))
    members = {name: member for member in model.body for name in binds(member)}
    constructors = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return _Task(model, constructors[0] if constructors else None, same, members, imports)


def _looks(bare: ast.stmt) -> set[str]:
    found = {ast.dump(bare)}
    if isinstance(bare, ast.ClassDef):  # without its forward: enough for whoever only needs the parameters
        body = [node for node in bare.body if not (isinstance(node, ast.FunctionDef) and node.name == "forward")]
        found.add(ast.dump(ast.ClassDef(bare.name, bare.bases, bare.keywords, body or [ast.Pass()], bare.decorator_list)))
    return found


def _make_bare(node: ast.AST, owner: str = "") -> None:
    """Without docstrings, annotations of functions, and arguments of a class's own `super`. The tree itself is changed: a copy is dear."""
    if isinstance(node, ast.ClassDef):
        owner = node.name
    if isinstance(node, _DEFINITIONS):
        node.body = [item for item in node.body if not _is_text(item)] or [ast.Pass()]
    if isinstance(node, _FUNCTIONS):
        node.returns = None
    elif isinstance(node, ast.arg):
        node.annotation = None
    elif isinstance(node, ast.Call) and _is_super(node) and node.args and isinstance(node.args[0], ast.Name):
        node.args = [] if node.args[0].id == owner else node.args
    for child in ast.iter_child_nodes(node):
        _make_bare(child, owner)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


class _File:
    def __init__(self, source: str, body: Sequence[ast.stmt], task: _Task) -> None:
        self.body, self.task = body, task
        self.lines = list(io.StringIO(source, newline=""))  # line ends as the parser counts them

    def stripped(self) -> str | None:
        models = [node for node in self.body if NEW in top_level_names(ast.Module([node], []))]
        if len(models) != 1 or not isinstance(models[0], ast.ClassDef) or not _lines_apart(self.body):
            return None
        model = models[0]
        text = self._class_text(model)
        if text is None:
            return None
        kept = [node for node in self.body if node is model or not self._is_tasks(node)]
        used = names_of(self._text(kept, model, text), ()).read
        kept = [node for node in kept if not isinstance(node, ast.Import | ast.ImportFrom) or self._stays(node, used)]
        return self._text(kept, model, text)

    def _is_tasks(self, node: ast.stmt) -> bool:
        names = [] if isinstance(node, _IMPORTS) else binds(node)
        if not names or not all(name in self.task.same for name in names):
            return False
        _make_bare(node)
        return ast.dump(node) in self.task.same[names[0]]

    def _stays(self, node: ast.Import | ast.ImportFrom, used: frozenset[str]) -> bool:
        if isinstance(node, ast.ImportFrom) and (node.module == "__future__" or node.names[0].name == "*"):
            return True
        known = self.task.imports
        return any(name in used or known.get(name, stands) != stands for name, stands in imported(node).items())

    def _class_text(self, model: ast.ClassDef) -> str | None:
        """`ModelNew` as a kind of `Model`; None where it is not."""
        task = self.task
        if (
            model.keywords
            or task.model.keywords
            or not _lines_apart(model.body, model.lineno)
            or _PRIVATE.search(self._lines_of(model))
        ):
            return None
        if [ast.unparse(base) for base in model.bases] == [MODEL]:
            own = [node for node in self.body if MODEL in binds(node)]
            return self._lines_of(model) if all(self._is_tasks(node) for node in own) else None
        if [ast.dump(base) for base in model.bases] != [ast.dump(base) for base in task.model.bases]:
            return None
        members = [self._lines_of(node) for node in model.body[:1] if _is_text(node)]
        left: list[ast.stmt] = []
        constructor = None
        for node in model.body[len(members) :]:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                constructor = node
                extra = self._extra(node)
                if extra is None:
                    return None
                if extra:
                    indent, inner = " " * node.col_offset, " " * node.body[0].col_offset
                    head = f"{indent}def __init__(self, *args, **kwargs):\n{inner}super().__init__(*args, **kwargs)\n"
                    members.append(head + extra)
            elif not self._is_models(node):
                members.append(self._lines_of(node, comments=True))
                left.append(node)
        if (task.constructor is not None and constructor is None) or self._calls_above(left):
            return None
        head = "".join(self.lines[_first_line(model) - 1 : model.lineno - 1]) + f"class {NEW}({MODEL}):\n"
        return head + ("\n".join(member.strip("\r\n") + "\n" for member in members) or "    pass\n")

    def _is_models(self, node: ast.stmt) -> bool:
        known = [self.task.members.get(name) for name in binds(node)]
        if not known or any(member is not known[0] for member in known) or known[0] is None:
            return False
        if len(getattr(known[0], "body", [])) > len(getattr(node, "body", [])) or len(known) != len(binds(known[0])):
            return False
        _make_bare(node, NEW)
        return ast.dump(node) == ast.dump(known[0])

    def _extra(self, node: ast.FunctionDef) -> str | None:
        """What a constructor does after all that Model's does; None where it is another one."""
        known = self.task.constructor or _EMPTY
        _make_bare(node, NEW)
        count = len(known.body)
        same = ast.dump(known.args) == ast.dump(node.args) and not node.decorator_list and not known.decorator_list
        if not same or [ast.dump(item) for item in node.body[:count]] != [ast.dump(item) for item in known.body]:
            return None
        extra = node.body[count:]
        if not extra:
            return ""
        bound = {item.arg for item in ast.walk(known.args) if isinstance(item, ast.arg)} | {"args", "kwargs"}
        bound |= {item.id for item in ast.walk(known) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        bound |= {name for item in ast.walk(known) if isinstance(item, (*_DEFINITIONS, *_IMPORTS)) for name in binds(item)}
        read = set().union(*(reads(item) for item in extra)) - {"self"}
        if bound & read or not _lines_apart(node.body) or self._calls_above(extra):
            return None
        return "".join(self.lines[node.body[count - 1].end_lineno or 0 : node.end_lineno]).lstrip("\r\n")

    def _calls_above(self, nodes: Sequence[ast.stmt]) -> bool:
        """Whether `super()` would now mean a method of Model where it meant one of Model's own base."""
        found = [inside for node in nodes if "super" in self._lines_of(node) for inside in ast.walk(node)]
        named = [node.attr for node in found if isinstance(node, ast.Attribute) and _is_super(node.value)]
        return any(name in self.task.members or name == "__init__" for name in named)

    def _lines_of(self, node: ast.stmt, comments: bool = False) -> str:
        first = _first_line(node) - 1
        while comments and self.lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return "".join(self.lines[first : node.end_lineno])

    def _text(self, kept: Sequence[ast.stmt], model: ast.ClassDef, model_text: str) -> str:
        text = ""
        last: ast.stmt | None = None
        end = 0  # the last line of the statement before, whether it stays or not
        for node in self.body:
            if node in kept:
                own = model_text if node is model else ""
                between = self.lines[end : _first_line(node) - 1]
                blank = sum(not line.strip() for line in between)
                comments = "".join(between).strip("\r\n")
                function = (comments + "\n" if comments.strip() else "") + (own or self._lines_of(node)).rstrip("\r\n") + "\n"
                large = last is None or isinstance(node, _DEFINITIONS) or isinstance(last, _DEFINITIONS)
                apart = large or isinstance(node, _IMPORTS) != isinstance(last, _IMPORTS)
                text += ("" if last is None else "\n\n" if apart else "\n" * min(blank, 2)) + function
                last = node
            end = node.end_lineno or 0
        rest = "".join(self.lines[end:]).strip("\r\n")
        return text + (f"\n\n{rest}\n" if rest.strip() else "")


def _first_line(node: ast.stmt) -> int:
    decorated = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list
    return decorated[0].lineno if decorated else node.lineno


def _lines_apart(nodes: Sequence[ast.stmt], after: int = 0) -> bool:
    """Whether each statement has lines of its own: edits are made by lines."""
    for node in nodes:
        if _first_line(node) <= after:
            return False
        after = node.end_lineno or 0
    return True
