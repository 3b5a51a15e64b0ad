"""Kernels of an answer and their launches, as the lint rules look for them."""

from __future__ import annotations

import ast
from collections.abc import Collection

from bottega.compiler.source.text import model_class


def is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one).startswith("triton.jit") for one in node.decorator_list)


def only_method(tree: ast.Module | None) -> ast.FunctionDef | None:
    """`forward` of a ModelNew that has no other method; others may make other tensors than the call graph tells."""
    model = model_class(tree)
    methods = [node for node in model.body if isinstance(node, ast.FunctionDef)] if model else []
    return methods[0] if len(methods) == 1 and methods[0].name == "forward" else None


def launched(call: ast.Call) -> str:
    """The kernel that `kernel[grid](…)` launches, and that `(kernel if … else other)[grid](…)` does for rows that fit; empty for other calls."""
    kernel = call.func.value if isinstance(call.func, ast.Subscript) else None
    kernel = kernel.body if isinstance(kernel, ast.IfExp) else kernel
    return kernel.id if isinstance(kernel, ast.Name) else ""


def is_launch(node: ast.AST, kernels: Collection[str]) -> bool:
    """Whether it launches one of these kernels, or chooses between two of them."""
    match node:
        case ast.Call(func=ast.Subscript(value=ast.Name(id=name))):
            return name in kernels
        case ast.Call(func=ast.Subscript(value=ast.IfExp(body=ast.Name(id=name), orelse=ast.Name(id=other)))):
            return name in kernels and other in kernels
    return False
