"""Products, convolutions and attention of halves that torch's library computes in fp32 here.

A CPU without instructions for bfloat16 has no fast product of them: oneDNN declines, and torch's own loop is a hundred times slower than the
product in fp32 with both operands cast on the way. The sum is in fp32 either way, and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bottega.compiler.backends.cpp.library_call import argument_text
from bottega.compiler.kernel import FunctionCall, PythonText
from bottega.compiler.view import Buffer, View
from bottega.core.device import slow_types

WIDE_PRODUCTS = "wide_products"
HEAVY = frozenset(
    (
        *("F.linear", "torch.matmul", "torch.mm", "torch.bmm", "torch.addmm", "torch.baddbmm", "torch.mv", "torch.addmv"),
        *("F.conv1d", "F.conv2d", "F.conv3d", "F.conv_transpose1d", "F.conv_transpose2d", "F.conv_transpose3d"),
        "F.scaled_dot_product_attention",
    )
)


def wide(call: FunctionCall, buffers: Mapping[str, Buffer]) -> FunctionCall:
    """The call in fp32, where it is heavy and in a type that is slow here."""
    result = buffers.get(call.results[0]) if len(call.results) == 1 else None
    if call.function not in HEAVY or call.text or result is None or result.dtype not in slow_types():
        return call

    def cast(value: Any) -> Any:
        held = buffers.get(value.buffer) if isinstance(value, View) else None
        return value if held is None or held.dtype != result.dtype else PythonText(f"{argument_text(value)}.float()")

    return replace(
        call,
        arguments=tuple(map(cast, call.arguments)),
        keywords=tuple((name, cast(value)) for name, value in call.keywords),
        then=f".to(torch.{result.dtype}){call.then}",
    )
