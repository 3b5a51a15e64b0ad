"""The task's own text with its layers exchanged: what the network is made of stays as it was written, to the character.

Names are resolved through the task's imports and edits are made at the places the syntax tree gives, so a layer is found however it
is spelled (`nn.Conv2d`, `torch.nn.Conv2d`, `from torch.nn import Conv2d`) and nothing else is touched. `isinstance` goes on asking
for torch's class, of which ours is one.
"""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from symtable import SymbolTable, symtable

from bottega.compiler.module_frame import MODEL, NEW
from bottega.compiler.source.statements import binds
from bottega.compiler.steps import Refusal
from bottega.core.task import Task, parsed

CONTRACT = ("get_inputs", "get_init_inputs")
TEMPORARY = " \x00"
"""Marks a line that an edit emptied."""


@dataclass(frozen=True)
class Network:
    """A task's file, read: its tree, what its names stand for, and which statements the model needs."""

    source: str
    label: str
    tree: ast.Module
    bound: dict[str, ast.stmt]
    paths: dict[str, str]
    """Imported names with what they stand for, by torch's dotted name."""
    kept: tuple[ast.stmt, ...]
    """Classes, functions and constants that the model uses, in order, imports apart."""
    imports: tuple[ast.stmt, ...]

    @property
    def model(self) -> ast.ClassDef:
        found = self.bound[MODEL]
        assert isinstance(found, ast.ClassDef)
        return found

    @property
    def forward(self) -> ast.FunctionDef:
        return next(node for node in self.model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")

    @property
    def names(self) -> frozenset[str]:
        """Every name that the kept text uses or binds."""
        inside = (node for statement in self.kept for node in ast.walk(statement))
        found = {node.id for node in inside if isinstance(node, ast.Name)}
        return frozenset(found | {name for statement in self.kept for name in binds(statement)})

    def path(self, node: ast.AST) -> str:
        """What an expression names, by its dotted name from the import on; empty where it is no such thing."""
        if isinstance(node, ast.Name):
            return self.paths.get(node.id, "")
        if isinstance(node, ast.Attribute):
            owner = self.path(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    def layer(self, node: ast.AST) -> str:
        """The class of `torch.nn` that an expression names."""
        path = self.path(node)
        return path.rsplit(".", 1)[-1] if path.startswith("torch.nn.") and path.rsplit(".", 1)[-1][:1].isupper() else ""


def read(task: Task) -> Network:
    tree = parsed(task.source, task.label)
    bound = {name: statement for statement in tree.body for name in binds(statement)}
    model = bound.get(MODEL)
    if not isinstance(model, ast.ClassDef):
        raise Refusal(f"{task.label}: {MODEL} is not a class")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in model.body):
        raise Refusal(f"{task.label}: {MODEL} has no forward of its own")
    if any(not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
           for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))):  # fmt: skip
        raise Refusal(f"{task.label}: the file does more than define things")
    needed = _needed(model, bound, task.source)
    imports = tuple(node for node in tree.body if node in needed and isinstance(node, ast.Import | ast.ImportFrom))
    kept = tuple(node for node in tree.body if node in needed and node not in imports)
    return Network(task.source, task.label, tree, bound, _paths(imports), kept, imports)


def rewritten(
    network: Network, layers: Mapping[str, str], comments: bool = True, replay: Collection[str] = (), run: str = "run"
) -> str:
    """The kept statements with each layer in `layers` under its new name, and `Model` as `ModelNew`.

    `replay` are methods that go to the end of the class; with them, `forward` is called `run` and the constructor makes room.
    """
    edits = _Edits(network.source)
    for statement in network.kept:
        asked = {id(inner) for node in ast.walk(statement) for inner in _asked(node)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == MODEL:
                edits.change(node, NEW)
            elif isinstance(node, ast.Name | ast.Attribute) and id(node) not in asked:
                name = layers.get(network.layer(node), "")
                if name:
                    edits.change(node, name)
            elif isinstance(node, ast.ClassDef | ast.FunctionDef):
                edits.undocument(node)
    edits.rename(network.model, "class", MODEL, NEW)
    if replay:
        edits.rename(network.forward, "def", "forward", run)
        _make_room(edits, network)
    texts = []
    for statement in network.kept:
        text = edits.text(statement)
        if statement is network.model and replay:
            text += "\n\n" + "\n\n".join(textwrap.indent(method, "    ") for method in replay)
        texts.append(text if comments else uncommented(text))
    return joined(texts, network.kept)


def joined(texts: Iterable[str], statements: Iterable[ast.stmt]) -> str:
    """Statements one below the other: classes and functions two lines apart, constants together."""
    whole, before = "", None
    for text, statement in zip(texts, statements):
        tight = isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(before, ast.Assign | ast.AnnAssign)
        whole += ("" if before is None else "\n" if tight else "\n\n\n") + text.strip("\n")
        before = statement
    return whole


def uncommented(text: str) -> str:
    """The same code without comments, and without the lines that held nothing else."""
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            lines[row] = lines[row][:column].rstrip() or TEMPORARY
    return "\n".join(line for line in lines if line != TEMPORARY)


def _needed(model: ast.ClassDef, bound: Mapping[str, ast.stmt], source: str) -> set[ast.stmt]:
    scopes = {table.get_name(): table for table in symtable(source, "task", "exec").get_children()}
    found: set[ast.stmt] = {model}
    pending: list[ast.stmt] = [model]
    while pending:
        for name in _reached(pending.pop(), scopes):
            statement = bound.get(name)
            if statement is not None and statement not in found:
                if any(each in CONTRACT for each in binds(statement)):
                    raise Refusal(f"the model calls {', '.join(CONTRACT)}")
                found.add(statement)
                pending.append(statement)
    return found


def _reached(statement: ast.stmt, scopes: Mapping[str, SymbolTable]) -> set[str]:
    """Names of the file that a statement reads: those that Python itself takes for global ones, not every word that is alike."""
    if not isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    around: list[ast.expr] = list(statement.decorator_list)
    around += statement.args.defaults if isinstance(statement, ast.FunctionDef) else statement.bases
    found = {node.id for part in around for node in ast.walk(part) if isinstance(node, ast.Name)}
    pending = [scopes[statement.name]]
    while pending:
        table = pending.pop()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        pending += table.get_children()
    return found


def _paths(imports: Iterable[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in imports:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                found[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for alias in statement.names:
                found[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return found


def _asked(node: ast.AST) -> Iterable[ast.AST]:
    """Classes that `isinstance` asks for, which stay torch's."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return ast.walk(node.args[1]) if len(node.args) > 1 else ()
    return ()


def _make_room(edits: _Edits, network: Network) -> None:
    methods = {node.name: node for node in network.model.body if isinstance(node, ast.FunctionDef)}
    constructor = methods.get("__init__")
    if constructor is not None:
        edits.append(constructor, "self.graph = None")
    else:
        first = methods[next(iter(methods))]
        lines = ["def __init__(self):", "    super().__init__()", "    self.graph = None", ""]
        edits.prepend(first, "\n".join(lines))


class _Edits:
    """Changes to a text, by place; offsets are counted in bytes, as the tree counts them."""

    def __init__(self, source: str) -> None:
        self.lines = [line.encode() for line in source.split("\n")]
        self.changes: dict[int, list[tuple[int, int, bytes]]] = {}
        self.gone: set[int] = set()
        self.after: dict[int, str] = {}
        self.before: dict[int, str] = {}

    def change(self, node: ast.expr, text: str) -> None:
        assert node.end_col_offset is not None
        if node.lineno != node.end_lineno:
            raise Refusal("a layer's name runs over several lines")
        self._at(node.lineno, node.col_offset, node.end_col_offset, text)

    def rename(self, node: ast.ClassDef | ast.FunctionDef, keyword: str, old: str, new: str) -> None:
        start = self.lines[node.lineno - 1].index(f"{keyword} {old}".encode()) + len(keyword) + 1
        self._at(node.lineno, start, start + len(old), new)

    def undocument(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            assert first.end_lineno is not None
            if len(node.body) > 1 and node.body[1].lineno == first.end_lineno:
                return
            self.gone |= set(range(first.lineno - 1, first.end_lineno))
            if len(node.body) == 1:
                self.before[first.lineno - 1] = " " * first.col_offset + "pass"
            elif not self.lines[first.end_lineno].strip():
                self.gone.add(first.end_lineno)

    def append(self, function: ast.FunctionDef, text: str) -> None:
        last = function.body[-1]
        assert last.end_lineno is not None
        self.after[last.end_lineno - 1] = " " * function.body[0].col_offset + text

    def prepend(self, function: ast.FunctionDef, text: str) -> None:
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        self.before[first - 1] = textwrap.indent(text, " " * function.col_offset)

    def text(self, statement: ast.stmt) -> str:
        decorators = statement.decorator_list if isinstance(statement, ast.ClassDef | ast.FunctionDef) else []
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        found: list[str] = []
        for number in range(first, statement.end_lineno or first):
            if number in self.before:
                found.append(self.before[number])
            if number not in self.gone:
                found.append(self._changed(number))
            if number in self.after:
                found.append(self.after[number])
        return "\n".join(line.rstrip() for line in found)

    def _at(self, line: int, start: int, end: int, text: str) -> None:
        self.changes.setdefault(line - 1, []).append((start, end, text.encode()))

    def _changed(self, number: int) -> str:
        line = self.lines[number]
        last = len(line)
        # Outer names come first: `nn.Conv2d` is changed as a whole, and the `nn` within it is not looked at.
        for start, end, text in sorted(self.changes.get(number, []), key=lambda change: (-change[0], -change[1])):
            if end <= last:
                line, last = line[:start] + text + line[end:], start
        return line.decode()
