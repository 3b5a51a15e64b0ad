"""The module around the kernels: `ModelNew` keeps the constructor of `Model`, so that parameters keep their names and values.

What the constructor needs of the task's file comes along (helper classes without their `forward`, constants); the rest stays behind.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bottega.compiler.build_step import Refusal
from bottega.compiler.source.statements import makers, reads
from bottega.core.task import BESIDE, Task, parsed

MODEL, NEW = "Model", "ModelNew"


@dataclass(frozen=True)
class Frame:
    imports: tuple[str, ...]
    """The task's own imports, as far as the constructor uses them."""
    support: str
    """Helper classes, functions and constants that the constructor uses."""
    constructor: str
    """`__init__` as text, not indented; empty when the module has none."""
    methods: str
    """Methods that the constructor calls, not indented."""
    base: str
    arguments: str
    """Of `forward`, as text without self: `x, mask=None`."""
    argument_names: tuple[str, ...]
    opening: str = ""
    """What provides the modules that the imports name, where the task carries them."""
    unpacked: tuple[str, ...] = ()
    """Lines that take tensors out of arguments which hold several."""
    kept: tuple[str, ...] = ()
    """Lines at the end of the constructor: tensors of forward or of the module that are no buffers, as buffers."""

    def render(
        self, imports: Iterable[str], prelude: str, forward: Sequence[str], extra: Sequence[str] = (), after: str = ""
    ) -> str:
        """The whole file. `extra` are lines added at the end of the constructor, `after` methods added to the class."""
        head = sorted_imports({"import torch", "from torch import nn", *self.imports, *imports})
        constructor = self.constructor
        if extra or self.kept:
            constructor = constructor or "def __init__(self, *given, **named):\n    super().__init__(*given, **named)"
            constructor += "\n" + textwrap.indent("\n".join((*self.kept, *extra)), "    ")
        body = [
            constructor,
            self.methods,
            f"def forward(self, {self.arguments}):\n" + textwrap.indent("\n".join((*self.unpacked, *forward)), "    "),
        ]
        body.append(after)
        inside = "\n\n".join(textwrap.indent(part.strip("\n"), "    ") for part in body if part.strip())
        parts = [self.opening, head, prelude.strip("\n"), self.support.strip("\n"), f"class {NEW}({self.base}):\n{inside}"]
        return "\n\n\n".join(part for part in parts if part) + "\n"


def read_model(task: Task) -> tuple[ast.Module, dict[str, list[ast.stmt]], ast.ClassDef]:
    """Returns the file's tree, its statements by the names that they make, and `Model`, which has a `forward`. Raises `Refusal`."""
    tree = parsed(task.source, task.label)
    bound = makers(tree.body)
    model = next((each for each in reversed(bound.get(MODEL, [])) if isinstance(each, ast.ClassDef)), None)
    if model is None:
        raise Refusal(f"{task.label}: {MODEL} is not a class")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in model.body):
        raise Refusal(f"{task.label}: {MODEL} has no forward of its own")
    return tree, bound, model


def frame_of(task: Task) -> Frame:
    tree, bound, model = read_model(task)
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)}
    forward = methods["forward"]
    constructor = methods.get("__init__")
    kept = _called_methods(constructor, methods)
    texts = [_text(method) for method in ([constructor] if constructor else []) + kept]  # also takes super's arguments away
    arguments = forward.args
    del (arguments.posonlyargs or arguments.args)[0]
    named = [*arguments.posonlyargs, *arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs]
    for argument in (*named, *([arguments.kwarg] if arguments.kwarg else [])):
        argument.annotation = None
    defaults = [each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None]
    needed = _needed([*([constructor] if constructor else []), *kept, *model.bases, *defaults], bound)
    support, imports = [], []
    for statement in tree.body:
        if statement in needed:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imports.append(ast.unparse(statement))
            else:
                support.append(ast.unparse(_without_forward(statement)))
    return Frame(
        imports=tuple(imports),
        support="\n\n\n".join(support),
        constructor=texts.pop(0) if constructor else "",
        methods="\n\n".join(texts),
        base=", ".join(ast.unparse(base) for base in model.bases),
        arguments=ast.unparse(arguments),
        opening="\n\n\n".join(ast.unparse(each) for each in tree.body if _provides(each)) if imports else "",
        argument_names=tuple(argument.arg for argument in named),
    )


def _provides(statement: ast.stmt) -> bool:
    return ast.unparse(statement).startswith((f"def {BESIDE}(", f"{BESIDE}("))


def _text(function: ast.FunctionDef) -> str:
    function = _bare(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
    return ast.unparse(function)


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """Without docstring and annotations: the reader knows them from the task."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        function.body = function.body[1:] or [ast.Pass()]
    function.returns = None
    for argument in [*function.args.args, *function.args.kwonlyargs]:
        argument.annotation = None
    return function


def _needed(roots: Iterable[ast.AST], bound: dict[str, list[ast.stmt]]) -> set[ast.stmt]:
    found: set[ast.stmt] = set()
    pending = list(roots)
    while pending:
        for name in reads(pending.pop()):
            for statement in bound.get(name, ()):
                if statement not in found:
                    found.add(statement)
                    pending.append(_without_forward(statement))
    return found


def _called_methods(constructor: ast.FunctionDef | None, methods: dict[str, ast.FunctionDef]) -> list[ast.FunctionDef]:
    found: list[ast.FunctionDef] = []
    pending = [constructor] if constructor else []
    while pending:
        for node in ast.walk(pending.pop()):
            owner = node.value if isinstance(node, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id == "self" and isinstance(node, ast.Attribute):
                method = methods.get(node.attr)
                if method is not None and method not in found and method.name not in ("forward", "__init__"):
                    found.append(method)
                    pending.append(method)
    return found


def _without_forward(statement: ast.stmt) -> ast.stmt:
    if not isinstance(statement, ast.ClassDef):
        return statement
    body = [node for node in statement.body if not (isinstance(node, ast.FunctionDef) and node.name == "forward")]
    body = [_bare(node) if isinstance(node, ast.FunctionDef) else node for node in body]
    body = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return ast.ClassDef(statement.name, statement.bases, statement.keywords, body or [ast.Pass()], statement.decorator_list)


def sorted_imports(lines: set[str]) -> str:
    """Standard library first, then torch and friends, then Bottega, as a formatter would leave them."""
    used = {"import torch.nn as nn", "from torch import nn"}
    if "import torch.nn as nn" in lines:
        lines = lines - {"from torch import nn"}
    groups: list[list[str]] = [[], [], []]
    for line in sorted(lines, key=lambda line: (not line.startswith("import"), line)):
        root = line.split()[1].split(".")[0]
        groups[2 if root == "bottega" else 1 if root in ("torch", "triton", "numpy", "einops") or line in used else 0].append(
            line
        )
    return "\n\n".join("\n".join(group) for group in groups if group)
