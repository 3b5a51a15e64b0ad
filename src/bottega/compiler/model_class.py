"""A task whose `Model` is no class of its file, as one whose is: users name a class of their own, a class that they import, or a function that
builds a module. Everything behind this reads one form, `class Model` with a forward that has a signature."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from dataclasses import replace
from typing import Any

import torch

from bottega.compiler.build_step import Refusal
from bottega.core.arguments import read_arguments
from bottega.core.task import Task, parsed

MODEL = "Model"
SIGNATURE = "inspect.signature"
HIDING = frozenset(("torch", "triton", "library", "max", "min", "float", "range"))
"""Names that a candidate's forward uses, and that an argument of `forward` would hide."""
_PLAIN = (bool, int, float, str, type(None))


def with_model_class(task: Task) -> Task:
    """Raises `Refusal` where the module cannot be built to see its signature, or what it is cannot be seen."""
    tree = parsed(task.source, task.label)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if MODEL in classes and _has_forward(classes[MODEL]):
        return _without_hiding(task, tree, classes[MODEL])
    alias = next((node for node in tree.body if _named(node) is not None), None)
    name = _named(alias) if alias is not None else MODEL
    if name in classes and name != MODEL and _has_forward(classes[name]):
        tree.body.remove(alias)  # type: ignore[arg-type]
        return replace(task, source=ast.unparse(ast.fix_missing_locations(_Renamed(str(name)).visit(tree))))
    if name is None:
        raise Refusal(f"{task.label}: what {MODEL} is cannot be seen in its text")
    if alias is not None:
        tree.body.remove(alias)
    elif MODEL in classes:  # its forward is a base class's
        tree = _Renamed(MODEL, name := "_ModelBase").visit(tree)
    return replace(task, source=f"{ast.unparse(tree)}\n\n\n{_derived(task, str(name))}\n")


def _without_hiding(task: Task, tree: ast.Module, model: ast.ClassDef) -> Task:
    """With other names for such arguments of `forward`, unless inputs may be given by name."""
    forward = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    inside = set(ast.walk(forward))
    beside = [node for node in ast.walk(tree) if node not in inside]
    spoken = {node.value for node in beside if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    spoken |= {node.arg for node in beside if isinstance(node, ast.keyword) and node.arg}
    hiding = {each.arg for each in (*forward.args.posonlyargs, *forward.args.args)} & HIDING - spoken
    for node in inside if hiding else ():
        if isinstance(node, ast.arg) and node.arg in hiding:
            node.arg += "_"
        if isinstance(node, ast.Name) and node.id in hiding:
            node.id += "_"
    return replace(task, source=ast.unparse(tree)) if hiding else task


def _named(node: ast.stmt) -> str | None:
    """The name behind `Model = Name`."""
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [MODEL]:
        return node.value.id if isinstance(node.value, ast.Name) else None
    return None


def _has_forward(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str = MODEL) -> None:
        self.old, self.new = old, new

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self.new if node.name == self.old else node.name
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.new if node.id == self.old else node.id
        return node


def _derived(task: Task, name: str) -> str:
    """A class below the one that is meant, with its signature in the text. It takes an instance to know: the task's code is run."""
    module = sys.modules["task"] = types.ModuleType("task")  # a dataclass asks for the module that it is of
    try:
        exec(compile(task.source, task.label, "exec"), vars(module))
        factory = vars(module)[MODEL]
        initial = read_arguments(vars(module)["get_init_inputs"](), factory)
        with torch.device("meta"):
            built = factory(*initial.positional, **initial.keywords)
    except Exception as error:
        raise Refusal(f"{task.label}: cannot be built: {type(error).__name__}: {error}") from None
    if not isinstance(built, torch.nn.Module):
        raise Refusal(f"{task.label}: {name} gives a {type(built).__name__}, no module")
    signature = inspect.signature(type(built).forward)
    lines = []
    base = name
    if not isinstance(factory, type):
        base = f"_{type(built).__name__}"
        home = type(built).__module__
        lines += [f"from {home} import {type(built).__name__} as {base}"] if home != "task" else []
        base = base if home != "task" else type(built).__name__
    lines += [f"class {MODEL}({base}):"]
    if not isinstance(factory, type):
        lines += [f"    def __init__(self, {_parameters(inspect.signature(factory), name, {})}):"]
        lines += [f"        self.__dict__.update({name}({_passed(inspect.signature(factory))}).__dict__)"]
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    written = _written_defaults(task, type(built).forward)
    lines += [
        f"    def forward(self, {_parameters(own, f'{base}.forward', written)}):",
        f"        return super().forward({_passed(own)})",
    ]
    asks = any(SIGNATURE in line for line in lines)
    return "\n".join([*(["import inspect"] if asks else []), *lines])


def _written_defaults(task: Task, forward: Any) -> dict[str, str]:
    """The text of each default where the task's own file has that forward: what comes of the file is without its forwards."""
    classes = (node for node in parsed(task.source, task.label).body if isinstance(node, ast.ClassDef))
    bodies = (each for node in classes if f"{node.name}.forward" == forward.__qualname__ for each in node.body)
    given = next((each.args for each in bodies if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    if given is None or forward.__module__ != "task":
        return {}
    placed = [*given.posonlyargs, *given.args]
    pairs = [*zip(placed[len(placed) - len(given.defaults) :], given.defaults), *zip(given.kwonlyargs, given.kw_defaults)]
    return {argument.arg: ast.unparse(default) for argument, default in pairs if default is not None}


def _parameters(signature: inspect.Signature, function: str, written: dict[str, str]) -> str:
    """Without annotations. A default that a text cannot have is asked of the `function` that has it."""
    return str(inspect.Signature([_parameter(each, function, written) for each in signature.parameters.values()]))[1:-1]


def _parameter(parameter: inspect.Parameter, function: str, written: dict[str, str]) -> inspect.Parameter:
    parameter = parameter.replace(annotation=parameter.empty)
    if parameter.default is parameter.empty or isinstance(parameter.default, _PLAIN):
        return parameter
    asked = f"{SIGNATURE}({function}).parameters[{parameter.name!r}].default"
    return parameter.replace(default=_Text(written.get(parameter.name, asked)))


class _Text:
    """Text that stands for a default in a signature's own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _passed(signature: inspect.Signature) -> str:
    """By name, as far as that can be: a decorator may add what it does not find among the named ones."""
    kinds = {each.kind for each in signature.parameters.values()}
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*{0}", inspect.Parameter.VAR_KEYWORD: "**{0}"}
    marks[inspect.Parameter.KEYWORD_ONLY] = "{0}={0}"
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        marks[inspect.Parameter.POSITIONAL_OR_KEYWORD] = "{0}={0}"
    return ", ".join(marks.get(each.kind, "{0}").format(each.name) for each in signature.parameters.values())
