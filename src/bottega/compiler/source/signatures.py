"""Calls that do not fit what they call: launches of the file's kernels, calls of its functions, and `ModelNew` against the task's `Model`."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from bottega.compiler.source.scopes import FUNCTIONS, ScopeVisitor
from bottega.languages import language_named

LAUNCH = frozenset(
    ("num_warps", "num_stages", "num_ctas", "maxnreg", "warmup", "grid", "stream", "debug", "enable_fp_fusion", "launch_cooperative_grid",
     "launch_pdl", "sanitize_overflow", "instrumentation_mode", "arch", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "ir_override")
)  # fmt: skip
"""Keywords that Triton takes at a launch beside the kernel's own, on one device or another."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def calls_that_do_not_fit(tree: ast.Module, scopes: ScopeVisitor, language: str) -> Iterator[str]:
    """Calls of functions of the file whose signature is plain, and whose name stands for nothing else."""
    plain = {
        one.name: one
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and scopes.bindings[one.name] == 1 and (is_kernel(one) or not one.decorator_list)
    }
    for call in _calls(tree):
        launch = isinstance(call.func, ast.Subscript)
        names = _callees(call.func.value if isinstance(call.func, ast.Subscript) else call.func)
        known = [plain[name] for name in names if name in plain]
        if launch:
            known = [one for one in known if language_named(language).decorators and is_kernel(one)]
        wrong = [_misfit(one.args, call, LAUNCH if launch else frozenset()) for one in known]
        if known and len(known) == len(names) and all(wrong):
            yield f"{'the launch' if launch else 'a call'} of {known[0].name} {wrong[0]}"


def _callees(function: ast.expr) -> list[str]:
    """Names of what is called: two where a condition decides between them, as at a launch for rows of any length."""
    match function:
        case ast.Name(id=name):
            return [name]
        case ast.IfExp(body=ast.Name(id=name), orelse=ast.Name(id=other)):
            return [name, other]
    return []


def is_kernel(function: Function) -> bool:
    """`@triton.jit` alone: what tunes a kernel also gives it arguments."""
    if len(function.decorator_list) != 1:
        return False
    (decorator,) = function.decorator_list
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("triton.jit", "jit")


def methods_that_differ(model: ast.ClassDef, task_model: ast.ClassDef) -> Iterator[str]:
    """Where no number of arguments suits both the answer's method and the task's."""
    for name in ("__init__", "forward"):
        mine, theirs = _method(model, name), _method(task_model, name)
        if mine is None or theirs is None or mine.decorator_list or theirs.decorator_list:
            continue
        least, most = _takes(mine.args)
        wanted_least, wanted_most = _takes(theirs.args)
        if most < wanted_least or least > wanted_most:
            takes = _words(least, most)
            yield f"{name} takes {takes} argument{'' if takes == '1' else 's'}, and the task's {_words(wanted_least, wanted_most)}"
        elif any(default is None for default in mine.args.kw_defaults):
            yield f"{name} wants a keyword that nobody gives"


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Those whose failure nobody expects."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child
        if isinstance(child, ast.Try | ast.TryStar) and child.handlers:
            for part in (*child.handlers, *child.orelse, *child.finalbody):
                yield from _calls(part)
        else:
            yield from _calls(child)


def _misfit(arguments: ast.arguments, call: ast.Call, extra: frozenset[str]) -> str:
    """What is wrong, in words; empty where nothing is, or where it is not certain."""
    if arguments.vararg or arguments.kwarg:
        return ""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return ""
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    named = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]
    optional = set(positional[len(positional) - len(arguments.defaults) :])
    optional |= {one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is not None}
    given = {str(one.arg) for one in call.keywords}
    if len(call.args) > len(positional):
        return f"gives {len(call.args)} arguments in a row, and it takes {len(positional)}"
    if unknown := sorted(given - set(named) - extra):
        return f"gives {', '.join(unknown)}, which it does not take"
    filled = positional[: len(call.args)]
    if twice := sorted(given.intersection(filled)):
        return f"gives {', '.join(twice)} twice"
    every = dict.fromkeys([*positional, *named])
    if missing := [name for name in every if name not in given and name not in filled and name not in optional]:
        return f"leaves out {', '.join(missing)}"
    return ""


def _method(model: ast.ClassDef, name: str) -> Function | None:
    found = [one for one in model.body if isinstance(one, FUNCTIONS) and one.name == name]
    return found[0] if len(found) == 1 else None


def _takes(arguments: ast.arguments) -> tuple[int, float]:
    """How many arguments in a row beside `self`, at least and at most."""
    most = len(arguments.posonlyargs) + len(arguments.args) - 1
    if arguments.vararg:
        return max(most - len(arguments.defaults), 0), math.inf
    return max(most - len(arguments.defaults), 0), most


def _words(least: int, most: float) -> str:
    return f"{least}" if least == most else f"{least} or more" if math.isinf(most) else f"{least} to {most:g}"
