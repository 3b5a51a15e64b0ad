"""Index bounds of an answer's kernels: elements outside a tensor, results that are not written to their end, inputs that are not read to theirs.

Nothing is run. The sizes stand in the call graph, the index arithmetic in the text: it is evaluated for programs at the corners of the grid and a few
between, over whole blocks. What cannot be evaluated (loaded numbers, a pointer that moves, a function of the answer's own) is not reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.lint.forward_values import KnownTensor, fills_storage, value_of
from bottega.agents.answers.lint.index_arithmetic import UNKNOWN, DoesNotFit, GivesUp, PointerValue, UnknownValue
from bottega.agents.answers.lint.kernels import is_kernel, is_launch, only_method
from bottega.agents.answers.lint.programs import ProgramRun, Reached, programs_of
from bottega.compiler.callgraph import CallGraph, Shape, is_result
from bottega.compiler.source.finding import Finding
from bottega.compiler.source.text import parsed

_WHOLE = frozenset(
    (
        "add", "sub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "relu", "sigmoid", "tanh", "silu", "gelu", "softplus", "softmax",
        "log_softmax", "sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "norm", "linalg_norm", "linalg_vector_norm", "logsumexp",
        "layer_norm", "rms_norm", "instance_norm", "group_norm", "batch_norm", "mv", "clamp", "mse_loss", "smooth_l1_loss", "kl_div",
    )
)  # fmt: skip
"""Operators that read to its end whatever they read."""


def check_bounds(source: str, context: AnswerContext) -> list[Finding]:
    """Findings for each tensor that a kernel leaves or does not fill; none where the file or the call graph cannot be read."""
    tree = parsed(source)
    forward = only_method(tree)
    graph = context.callgraph if context.follows_callgraph else None
    if tree is None or forward is None or graph is None:
        return []
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and is_kernel(node)}
    reached = Reached()
    try:
        with np.errstate(all="ignore"):
            _evaluate(forward, kernels, dict(graph.shapes), reached)
    except (GivesUp, RecursionError, ArithmeticError, ValueError, TypeError, IndexError, MemoryError):
        return []
    if reached.apart:
        return [Finding("block_shapes", message) for message in dict.fromkeys(reached.apart)]
    return list(_findings(reached, _read_whole(graph) - _read_otherwise(forward, kernels)))


def _findings(found: Reached, read_whole: frozenset[str]) -> Iterator[Finding]:
    """`read_whole`: tensors that the call graph reads to the end, and `forward` by kernels alone."""
    for key, reach in found.reached.items():
        tensor, elements = found.tensors[key], prod(found.tensors[key].shape)
        kernel, whole = found.where[key], f"{tensor.name}, of {elements} elements,"
        if reach.least < 0:
            yield Finding("out_of_bounds", f"{kernel} reaches {-reach.least} elements before {tensor.name}")
        if reach.read >= elements:
            yield Finding("out_of_bounds", f"{kernel} reads {whole} at place {reach.read}")
        if reach.written >= elements:
            yield Finding("out_of_bounds", f"{kernel} writes {whole} at place {reach.written}")
        elif 0 <= reach.written < elements - 1 and not reach.hidden:
            yield Finding("incomplete_write", f"{kernel} writes {whole} up to place {reach.written} alone")
        if 0 <= reach.read < elements - 1 and not reach.unread and tensor.name in read_whole:
            yield Finding("incomplete_read", f"{kernel} reads {whole} up to place {reach.read} alone")


def _read_whole(graph: CallGraph) -> frozenset[str]:
    found: set[str] = set(graph.given)
    for call in graph.calls:
        found.update(call.names)
        if call.operator not in _WHOLE:
            found -= {*call.words, *call.tensors}
    return frozenset(found)


def _read_otherwise(forward: ast.FunctionDef, kernels: dict[str, ast.FunctionDef]) -> set[str]:
    """Tensors that something but kernels reads: places that are no part of another place nor of a launch."""
    found: set[str] = set()
    pending: list[ast.AST] = list(forward.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute | ast.Name):
            place = ast.unparse(node)
            found.add(place)
            if isinstance(node, ast.Attribute) and node.attr not in ("shape", "device", "dtype", "numel"):
                pending.append(node.value)
        elif is_launch(node, kernels):
            continue
        elif not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            pending += ast.iter_child_nodes(node)
    return found


def _evaluate(
    forward: ast.FunctionDef, kernels: dict[str, ast.FunctionDef], shapes: dict[str, Shape], reached: Reached
) -> None:
    known: dict[str, Any] = {
        name: KnownTensor(name, shape, in_order=False) for name, shape in shapes.items() if not is_result(name)
    }
    for statement in forward.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            value = value_of(statement.value, known)
            if isinstance(value, KnownTensor):
                known[name] = replace(value, name=name)
            elif (
                isinstance(value, UnknownValue) and is_result(name) and name in shapes and fills_storage(statement.value, known)
            ):
                known[name] = KnownTensor(name, shapes[name], in_order=False)
            else:
                known[name] = value
        elif isinstance(statement, ast.Expr) and is_launch(statement.value, kernels):
            _launch(statement.value, kernels, known, reached)
        elif isinstance(statement, ast.Return | ast.Expr):
            continue
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    known[node.id] = UNKNOWN
            if any(is_launch(node, kernels) for node in ast.walk(statement)):
                raise GivesUp


def _launch(call: ast.expr, kernels: dict[str, ast.FunctionDef], known: dict[str, Any], reached: Reached) -> None:
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Subscript)
    kernel = kernels[_chosen(call.func.value, known)]
    grid = value_of(call.func.slice, known)
    grid = grid if isinstance(grid, tuple) else (grid,)
    if not all(type(size) is int and 0 < size < 2**31 for size in grid) or any(
        isinstance(one, ast.Starred) for one in call.args
    ):
        raise GivesUp
    parameters = [one.arg for one in kernel.args.args]
    given = dict(zip(parameters, (value_of(one, known) for one in call.args)))
    given |= {word.arg: value_of(word.value, known) for word in call.keywords if word.arg in parameters}
    seed: dict[str, Any] = {}
    for name in parameters:
        value = given.get(name, UNKNOWN)
        seed[name] = PointerValue(value) if isinstance(value, KnownTensor) else value
    for tensor in (one.tensor for one in seed.values() if isinstance(one, PointerValue)):
        reached.add(tensor, kernel.name)
    try:
        for program in programs_of(kernel, grid):
            ProgramRun(reached, (*program, 0, 0)[:3], (*grid, 1, 1)[:3]).run(kernel.body, dict(seed))
    except DoesNotFit as blocks:
        reached.apart.append(f"{kernel.name} brings together {blocks}")


def _chosen(kernel: ast.expr, known: dict[str, Any]) -> str:
    """The kernel's name; of two that a length decides between, the one that is launched."""
    if isinstance(kernel, ast.IfExp):
        asked = value_of(kernel.test, known)
        if not isinstance(asked, bool):
            raise GivesUp
        return _chosen(kernel.body if asked else kernel.orelse, known)
    assert isinstance(kernel, ast.Name)
    return kernel.id
