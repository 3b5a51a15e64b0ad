"""Names that an answer binds for a purpose of its own: locals of kernels, parameters and locals of what it brings along.

A kernel's parameter carries the name of what it is given, and a module's method the names of the task's, so these are not its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

ENTRY, TASKS_ENTRY = "ModelNew", "Model"

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_COMMENT = re.compile(r"//[^\n]*|/\*(?:.*?\*/|.*)|^[ \t]*#[ \t]*(?:pragma|include)\b[^\n]*", re.S | re.M)
_KERNEL = re.compile(r'(?:extern\s+"C"|\b__global__)[^(){};]{0,600}\(')
_TYPE = r"(?:float|double|int|long|char|bool|auto|half|void|size_t|ptrdiff_t|u?int\d+_t|__\w+|float[234]|half2|const|vec)"
_NOT_A_TYPE = r"(?:return|else|case|goto|new|delete|throw|using|namespace|typename|operator|extern|if|while|do|and|or|not)"
_DECLARED = re.compile(
    rf"\b(?!{_NOT_A_TYPE}\b)[A-Za-z_]\w*\s+(?=([A-Za-z_]\w*)\b(?!\s*::))"  # two words in a row: a type and a name
    rf"|\b{_TYPE}\s*[*&][\s*&]*(?:const\s+|__restrict__\s+|restrict\s+)*([A-Za-z_]\w*)"
    r"|\w<[\w:,\s*]+>[\s*&]*([A-Za-z_]\w*)\s*[=;,(){\[]"  # std::vector<float> lines
)
_NEXT = re.compile(r"\s*[*&]?\s*([A-Za-z_]\w*)\s*(?=[=,;\[({])(?!==)")
_SIGN = re.compile(r"[()\[\]{},;]")


def own_names(answer: ast.Module, task: ast.Module) -> set[str]:
    """Those of an answer to a task. A class that the task has too is the task's; the rest of the answer is its writer's."""
    classes = {node.name: node for node in task.body if isinstance(node, ast.ClassDef)}
    launched: set[str] = set()
    found: set[str] = set()
    for each in ast.walk(answer):
        if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name):
            launched.add(each.value.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and "{" in each.value and ";" in each.value:
            found |= declared_names(each.value)
    for node in answer.body:
        if isinstance(node, _Function):
            kernel = node.name in launched and _is_kernel(node)
            found |= _bound(node) if kernel else _bound(node) | _parameters(node)
        elif isinstance(node, ast.ClassDef):
            model = classes.get(TASKS_ENTRY if node.name == ENTRY else node.name)
            found.update(name for method in _functions(node) for name in _of_method(method, node.name, model))
    return found


def _of_method(method: _Function, owner: str, model: ast.ClassDef | None) -> set[str]:
    if model is None:
        return _bound(method) if owner == ENTRY else _bound(method) | _parameters(method)
    bound = _bound(method)
    if not bound:
        return bound
    by_name = {other.name: other for other in _functions(model)}
    other = by_name.get(method.name, by_name.get("forward"))  # a method that the task lacks holds parts of its forward
    theirs = {node.id for node in ast.walk(other) if isinstance(node, ast.Name)} | _parameters(other) if other else set()
    return bound - theirs


def _functions(node: ast.ClassDef) -> Iterator[_Function]:
    return (inner for inner in node.body if isinstance(inner, _Function))


def _is_kernel(function: _Function) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _parameters(function: _Function | ast.Lambda) -> set[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in every if argument is not None}


def _bound(function: _Function) -> set[str]:
    """Names that it assigns or loops over. One that is made of what bore the name before, as in `scale = self.scale` and
    `scale = tl.load(scale_ptr)`, still carries it."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= _stored(targets) - (_mentioned(node.value) if node.value else set())
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            found |= _stored([node.target])
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            found |= _stored([node.optional_vars])
        elif isinstance(node, ast.Lambda | _Function) and node is not function:
            found |= _parameters(node)
    return found


def _stored(targets: list[ast.expr]) -> set[str]:
    nodes = (node for target in targets for node in ast.walk(target))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _mentioned(value: ast.expr) -> set[str]:
    nodes = list(ast.walk(value))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return (
        names | {name.removesuffix("_ptr") for name in names} | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    )


def declared_names(text: str) -> set[str]:
    """What C++ or CUDA text declares, functions too, but for the parameters of its kernels."""
    text = _without_parameters(_COMMENT.sub(" ", text))
    found: set[str] = set()
    for match in _DECLARED.finditer(text):
        found.add(match[match.lastindex or 0])
        found.update(_further(text, match.end(match.lastindex or 0)))
    return found


def _without_parameters(text: str) -> str:
    pieces, at = [], 0
    for match in _KERNEL.finditer(text):
        pieces.append(text[at : match.end()])
        at = _closing(text, match.end())
    return "".join([*pieces, text[at:]])


def _closing(text: str, start: int) -> int:
    """Where the bracket that was opened before `start` is closed."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _further(text: str, start: int) -> Iterator[str]:
    """Other names of the same declaration: `float low = 0, high = 1;`."""
    depth = 0
    for sign in _SIGN.finditer(text, start):
        if depth == 0 and sign[0] in "{;":
            return
        depth += (sign[0] in "([{") - (sign[0] in ")]}")
        if depth < 0:
            return
        if sign[0] == "," and depth == 0 and (match := _NEXT.match(text, sign.end())):
            yield match[1]
