"""Values of `forward` as far as the call graph's shapes tell them: sizes, tuples of sizes, and tensors by their shape."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from bottega.agents.answers.lint.index_arithmetic import UNKNOWN, binary, compared, of_numbers, word_of
from bottega.compiler.callgraph import Shape

_SLICES = frozenset(
    (
        "expand", "expand_as", "broadcast_to", "narrow", "chunk", "split", "tensor_split", "select", "unbind", "unfold", "as_strided", "diagonal",
        "repeat_interleave", "index_select",
    )
)  # fmt: skip
"""Methods whose result does not lie in memory as its size tells."""


@dataclass(frozen=True)
class KnownTensor:
    name: str
    shape: Shape
    lies_whole: bool = True
    """Whether its elements fill its storage, in whatever order."""
    in_order: bool = True


def fills_storage(value: ast.expr, known: dict[str, Any]) -> bool:
    """Whether a result lies whole: made by a function, or a view of something that does."""
    if isinstance(value, ast.Call):
        function = value.func
        if isinstance(function, ast.Attribute):
            if function.attr in _SLICES:
                return False
            place = ast.unparse(function.value)
            tensor = known.get(place)
            return tensor.lies_whole if isinstance(tensor, KnownTensor) else place in ("torch", "torch.nn.functional", "F")
        return isinstance(function, ast.Name)
    return False


def value_of(node: ast.expr, known: dict[str, Any]) -> Any:
    """Numbers, tuples and tensors of `forward`."""
    place = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
    if place in known:
        return known[place]
    match node:
        case ast.Constant(value=int() | float() | bool()):
            return node.value
        case ast.Tuple():
            return tuple(value_of(one, known) for one in node.elts)
        case ast.BinOp():
            return binary(node.op, value_of(node.left, known), value_of(node.right, known))
        case ast.UnaryOp(op=ast.USub()):
            value = value_of(node.operand, known)
            return -value if isinstance(value, int | float) else UNKNOWN
        case ast.Attribute(attr="shape"):
            tensor = value_of(node.value, known)
            return tensor.shape if isinstance(tensor, KnownTensor) else UNKNOWN
        case ast.Subscript():
            sizes, at = value_of(node.value, known), value_of(node.slice, known)
            if isinstance(sizes, tuple) and isinstance(at, int):
                return sizes[at]
        case ast.Compare(ops=[operator], comparators=[right]):
            return compared(operator, value_of(node.left, known), value_of(right, known))
        case ast.IfExp():
            asked = value_of(node.test, known)
            if isinstance(asked, bool):
                return value_of(node.body if asked else node.orelse, known)
        case ast.Call():
            return _call_value(node, known)
    return UNKNOWN


def _call_value(node: ast.Call, known: dict[str, Any]) -> Any:
    word, given = word_of(node), [value_of(one, known) for one in node.args]
    numbers = [one for one in given if type(one) is int]
    if isinstance(node.func, ast.Attribute):
        tensor = value_of(node.func.value, known)
        if isinstance(tensor, KnownTensor):
            if node.func.attr == "numel":
                return prod(tensor.shape)
            if node.func.attr in ("dim", "ndimension"):
                return len(tensor.shape)
            if node.func.attr == "size" and numbers:
                return tensor.shape[numbers[0]]
            if node.func.attr == "stride" and numbers and tensor.in_order:
                return prod(tensor.shape[numbers[0] % len(tensor.shape) + 1 :])
            return UNKNOWN
    if word in ("torch.empty", "torch.zeros") and given:
        sizes = given[0] if isinstance(given[0], tuple) else tuple(given)
        return KnownTensor("", sizes) if sizes and all(type(size) is int for size in sizes) else UNKNOWN
    if word == "torch.empty_like" and isinstance(given[0], KnownTensor):
        return replace(given[0], lies_whole=True)
    if len(numbers) < max(1, len(given)) or node.keywords:
        return UNKNOWN
    return of_numbers(word, numbers)
