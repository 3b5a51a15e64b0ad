"""The operators of a task, read off its syntax tree, in one spelling whichever way the module is written.

`nn.LayerNorm`, `F.layer_norm` and `torch.layer_norm` are one operator; a layer counts where it is made, not where it is called.
Sorted, and each as often as it occurs: two tasks with the same list are the same combination, and never stand on both sides of a split.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bottega.core.task import Task, parsed

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_PLUMBING = frozenset(
    """parameter sequential modulelist moduledict identity super init size view reshape contiguous float long int to type dim numel
    randn rand randint zeros ones empty full arange tensor range len list tuple flatten unsqueeze squeeze expand append format item
    xavieruniform kaiminguniform registerbuffer superinit uniform normal constant clone detach""".split()  # noqa: SIM905
)
"""Names that shape, make or hold tensors: how a module is written, not what it computes."""
_ALIASES = {"mm": "matmul", "bmm": "matmul", "subtract": "sub", "multiply": "mul", "divide": "div", "swish": "silu"}
_OWNERS = frozenset(("math", "init", "np", "numpy"))


def operators_of(source: str, label: str = "task") -> tuple[str, ...]:
    """Raises `TaskError` where the source does not parse."""
    tree = parsed(source, label)
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    found += _built(part) if part.name == "__init__" else _computed(part)
        elif isinstance(node, ast.FunctionDef) and node.name not in ("get_inputs", "get_init_inputs"):
            found += _computed(node)
    return tuple(sorted(found))


def combination(task: Task) -> str:
    """The task's operators as one word."""
    return " ".join(operators_of(task.source, task.label))


def _built(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Layers that a constructor makes: calls with a capital."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name, _ = _called(node.func)
            if name[:1].isupper() and _canonical(name) not in _PLUMBING:
                yield _canonical(name)


def _computed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    shaping = _shaping(function)
    for node in ast.walk(function):
        if id(node) in shaping:
            continue
        if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
            yield _ARITHMETIC[type(node.op)]
        elif isinstance(node, ast.Call):
            name, owner = _called(node.func)
            plain = _canonical(name)
            if owner not in ("self", *_OWNERS) and plain and plain not in _PLUMBING and isinstance(node.func, ast.Attribute):
                yield plain


def _shaping(function: ast.AST) -> set[int]:
    """Nodes below subscripts' indices and the arguments of calls that take sizes: arithmetic there is about shapes."""
    found: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            found |= {id(inner) for inner in ast.walk(node.slice)}
        elif isinstance(node, ast.Call) and _canonical(_called(node.func)[0]) in (
            "view",
            "reshape",
            "expand",
            "range",
            "arange",
        ):
            found |= {id(inner) for argument in node.args for inner in ast.walk(argument)}
    return found


def _called(function: ast.expr) -> tuple[str, str]:
    """A call's name, and the name it hangs on."""
    if isinstance(function, ast.Attribute):
        return function.attr, function.value.id if isinstance(function.value, ast.Name) else ""
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")


def _canonical(name: str) -> str:
    plain = re.sub(r"(loss)?$", "", name.replace("_", "").lower(), count=1)
    return _ALIASES.get(plain, plain)
