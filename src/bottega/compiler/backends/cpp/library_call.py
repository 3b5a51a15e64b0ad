"""What is left to torch, as a line of `forward`."""

from __future__ import annotations

from typing import Any

from bottega.compiler.kernel import RECURRENT_CELLS, FunctionCall, PythonText
from bottega.compiler.view import View

_OTHER_LAYOUT = frozenset(("scaled_dot_product_attention", "unfold", "flip", "einsum", *RECURRENT_CELLS))
"""Operators whose results need not be contiguous, which kernels after them rely on."""
_DENSE = frozenset(("linear", "matmul", "mm", "bmm", "addmm", "baddbmm"))
"""Operators whose results are, however their operands lie. Others give what lies as their operand does."""


def call_line(call: FunctionCall) -> str:
    arguments = [argument_text(value) for value in call.arguments]
    arguments += [f"{name}={argument_text(value)}" for name, value in call.keywords]
    text = f"{call.targets} = {call.function}({', '.join(arguments)}){call.then}"
    turned = not call.then and not _DENSE.intersection(call.origin) and any(map(_lies_otherwise, call.arguments))
    if not turned and not _OTHER_LAYOUT.intersection(call.origin) and not call.function.startswith("torch.ops."):
        return text
    if len(call.results) == 1:
        return f"{text}.contiguous()"
    return "\n".join([text, *(f"{name} = {name}.contiguous()" for name in call.results if name)])


def _lies_otherwise(argument: Any) -> bool:
    if isinstance(argument, tuple | list):
        return any(map(_lies_otherwise, argument))
    return isinstance(argument, View) and not argument.contiguous


def call_imports(call: FunctionCall) -> set[str]:
    return {"import torch.nn.functional as F"} if call.function.startswith("F.") else set()


def argument_text(value: Any) -> str:
    if isinstance(value, View):
        return value.text or value.buffer
    if isinstance(value, PythonText):
        return value.text
    if isinstance(value, tuple):
        inside = ", ".join(argument_text(part) for part in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join(argument_text(part) for part in value)}]"
    return repr(value)
