"""Operators that the kernel library has a function for, called with the text of the call graph."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional

from bottega.compiler.bodies import made
from bottega.compiler.kernel import FunctionCall, Kernel, RowProgram
from bottega.compiler.lowering.calls import own_overload
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope, Statement
from bottega.compiler.sizes import marked
from bottega.compiler.traced_graph import Ref

ALWAYS = frozenset(
    (
        *("linear", "matmul", "mm", "bmm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
        *("conv_transpose3d", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "cumsum"),
        *("cumprod", "scaled_dot_product_attention", "group_norm", "instance_norm", "argmax", "argmin", "cross_entropy"),
    )
)
STATISTICS = frozenset(("batch_norm",))
"""Where they take statistics of the batch; with kept ones they are elementwise, and fuse."""
LONG = frozenset(("softmax", "log_softmax", "layer_norm"))
"""Where a row is too long for one program to hold."""
LONGEST_ROW = 16384
JOINING = ("torch.cat", "torch.stack")
LIBRARY_OPERATORS = ALWAYS | STATISTICS | LONG
_NUMBER = re.compile(r"(?<![\w.'\"])(inf|nan)\b(?!['\"=])")
"""Numbers that the call graph prints as no Python text has them."""
_NAME = re.compile(r"(?<![\w.])t\d+(?:_\d+)?(?!\w)")


def with_library_function(scope: LoweringScope, statements: list[Statement], calls: Mapping[str, str]) -> list[Statement]:
    """The statements of the current node: calls with the text of the call graph, and the library call that does the same beside each."""
    place = next((n for n, statement in enumerate(statements) if scope.node.name in _made(statement)), None)
    if place is None:
        return statements
    found = statements[place]
    call, text = found.call, calls.get(scope.node.name, "")
    if call is not None and text.split("(")[0] == call.function.split(".")[-1] and len(call.results) == 1:
        call_texts = _called(scope, text)
        prefix = call.function.rpartition(".")[0]
        if call_texts is not None and (
            prefix == "F" or call.function in JOINING
        ):  # a method's arguments may not be its function's
            call = replace(call, text=f"{prefix}.{call_texts.text}", looks=call_texts.looks)
    return [
        *statements[:place],
        replace(found, call=call, library_call=_library_call(scope, found, calls)),
        *statements[place + 1 :],
    ]


def lower(scope: LoweringScope, calls: Mapping[str, str]) -> LoweredTensor | None:
    """The current node as a library call alone, where nothing else lowers it."""
    text = calls.get(scope.node.name, "")
    if text.split("(")[0] not in ALWAYS or not scope.node.outputs:
        return None
    library_call = _called(scope, text)
    if library_call is None:
        return None
    shape, dtype = scope.spec()
    buffer = scope.fresh(shape, dtype)
    library = "F" if hasattr(torch.nn.functional, library_call.function) else "torch"
    call = replace(own_overload(scope, library_call.results), text=f"{library}.{library_call.text}", looks=library_call.looks)
    scope.state(None, call, library_call)
    return LoweredTensor(marked(buffer), dtype)


def _made(statement: Statement) -> list[str]:
    kernel: Kernel | None = statement.kernel or statement.call
    return made(kernel) if kernel is not None else []


def _library_call(scope: LoweringScope, statement: Statement, calls: Mapping[str, str]) -> FunctionCall | None:
    text = calls.get(scope.node.name, "")
    word = text.split("(")[0] or (statement.call.function.split(".")[-1] if statement.call else "")
    if word not in LIBRARY_OPERATORS:
        return None
    kernel = statement.kernel
    if word in STATISTICS and not isinstance(kernel, RowProgram):
        return None
    if word in LONG and not (isinstance(kernel, RowProgram) and math.prod(kernel.reduced) > LONGEST_ROW):
        return None
    call_texts = _called(scope, text) if text else None
    if call_texts is not None or statement.call is None:
        return call_texts
    return FunctionCall(
        word, statement.call.arguments, statement.call.keywords, (scope.node.name,), scope.origin, library_call=True
    )


def _called(scope: LoweringScope, text: str) -> FunctionCall | None:
    """The call graph's call, verbatim. None where it names something that has no name here, or that is not what is given: the tracer may cast a
    result that the call graph hands on as it is."""
    looks: list[tuple[str, str]] = []
    word = text.split("(", maxsplit=1)[0]
    read = tuple(
        scope.tensor(ref).view
        for ref in _references(scope.node.arguments)
        if isinstance(scope.values.get(ref.name), LoweredTensor)
    )
    given = {view.buffer for view in read}
    for name in dict.fromkeys(_NAME.findall(text)):
        value = scope.values.get(name)
        if not isinstance(value, LoweredTensor) or not value.view.text:
            return None
        if word == scope.node.operator and value.view.buffer not in given:
            return None
        if value.view.text != name:
            looks.append((name, value.view.text))
    return FunctionCall(
        word,
        read,
        (),
        (scope.node.name,),
        scope.origin,
        library_call=True,
        text=_NUMBER.sub(r'float("\1")', text),
        looks=tuple(looks),
    )


def _references(value: object) -> list[Ref]:
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [found for item in value for found in _references(item)] if isinstance(value, tuple | list) else []
