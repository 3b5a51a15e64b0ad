"""Convolutions and poolings: windows slid over space. Running sums along a dimension stand beside them."""

from __future__ import annotations

import math
from typing import Any

from bottega.compiler.compose import permuted
from bottega.compiler.expression import Expression, Load, Name, apply
from bottega.compiler.kernel import ACCUMULATOR, RUNNING, WINDOW, Convolution, FunctionCall, Kernel, Map, Pool, Scan, StoreOp
from bottega.compiler.lowering.calls import call_of
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope, squeezed, squeezed_body, squeezed_shape
from bottega.compiler.sizes import marked
from bottega.compiler.view import Shape, View, contiguous_strides

CONVOLUTIONS = frozenset(
    ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution")
)
POOLS = frozenset(
    (
        *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
        *("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices"),
    )
)
SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min", "logcumsumexp": "logaddexp"}
OPERATORS = CONVOLUTIONS | POOLS | frozenset(SCANS)


def lower(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator = scope.node.operator
    if operator in CONVOLUTIONS:
        return _convolution(scope)
    return _scan(scope) if operator in SCANS else _pool(scope)


def _spread(value: Any, rank: int) -> Shape:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(int(v) for v in (values * rank if len(values) == 1 else values))


def _convolution(scope: LoweringScope) -> LoweredTensor:
    x, weight, bias = scope.operand("input"), scope.operand("weight"), scope.optional("bias")
    shape, dtype = scope.spec()
    rank = len(weight.shape) - 2
    transposed = "transpose" in scope.node.operator or bool(scope.argument("transposed"))
    stride, dilation = _spread(scope.argument("stride"), rank), _spread(scope.argument("dilation"), rank)
    padding = scope.argument("padding")
    window = weight.shape[2:]
    if padding in ("same", "valid"):
        full = [d * (k - 1) for d, k in zip(dilation, window)]
        if padding == "same" and any(f % 2 for f in full):
            raise scope.refuse("pads one side more than the other")
        padding = tuple(f // 2 if padding == "same" else 0 for f in full)
    padding = _spread(padding, rank)
    output_padding = _spread(scope.argument("output_padding") or 0, rank)
    if len(x.shape) != rank + 2:
        raise scope.refuse("without a batch")
    groups = int(scope.argument("groups"))
    buffer = scope.fresh(shape, dtype)
    body: Expression = Name(ACCUMULATOR)
    if bias is not None:
        body = apply("add", body, scope.along(bias, 1, shape))
    kernel = Convolution(
        source=x.view,
        weight=weight.view,
        shape=shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
        output_padding=output_padding,
        dtype=x.dtype,
        stores=(StoreOp(marked(buffer), body, dtype),),
        origin=scope.origin,
    )
    name = f"F.conv_transpose{rank}d" if transposed else f"F.conv{rank}d"
    pieces = _product(scope, kernel, bias) if transposed else ()
    given = None
    if scope.node.operator == "convolution":  # that another operator was taken apart into
        rest = (output_padding, groups, dilation) if transposed else (dilation, groups)
        given = (x.view, weight.view, None if bias is None else bias.view, stride, padding, *rest)
    scope.state(kernel, call_of(scope, (buffer.name,), name, given), pieces=pieces)
    return LoweredTensor(marked(buffer), dtype)


def _product(scope: LoweringScope, kernel: Convolution, bias: LoweredTensor | None) -> tuple[Kernel, ...]:
    """A transposed convolution whose windows do not overlap: the library's product of weights and inputs, each element put in its place. Torch's own
    adds the windows up one by one, which takes twenty times as long on a CPU. None where they do."""
    x, weight, window = kernel.source, kernel.weight, kernel.weight.shape[2:]
    plain = kernel.groups == 1 and not any((*kernel.padding, *kernel.output_padding)) and set(kernel.dilation) == {1}
    if (
        not plain
        or window != kernel.stride
        or kernel.dtype != "float32"
        or not (x.contiguous and weight.contiguous)
        or not x.text
    ):
        return ()
    (batch, channels, *inside), (_, outputs, *_) = x.shape, weight.shape
    taps, places = math.prod(window), math.prod(inside)
    buffer = scope.fresh((batch, outputs * taps, places), kernel.dtype, "_products")
    columns = f"{weight.text}.flatten(1).t().expand({batch}, -1, -1)"
    left = View(weight.buffer, (batch, outputs * taps, channels), (0, 1, outputs * taps), weight.offset, columns)
    right = View(
        x.buffer, (batch, channels, places), contiguous_strides((batch, channels, places)), x.offset, f"{x.text}.flatten(2)"
    )
    call = FunctionCall("torch.bmm", (left, right), (), (buffer.name,), scope.origin)
    shape = (batch, outputs, *(size for pair in zip(inside, window) for size in pair))
    within, tap, space = (contiguous_strides(tuple(sizes)) for sizes in (inside, window, kernel.shape))
    pairs = [step for at in range(len(inside)) for step in (within[at], tap[at] * places)]
    source = View(buffer.name, shape, (outputs * taps * places, taps * places, *pairs))
    pairs = [step for at in range(len(inside)) for step in (space[2 + at] * window[at], space[2 + at])]
    body: Expression = Load(source, kernel.dtype)
    if bias is not None:
        body = apply("add", body, scope.along(bias, 1, shape))
    result = kernel.stores[0].view.buffer
    store = StoreOp(squeezed(View(result, shape, (space[0], space[1], *pairs))), squeezed_body(body, shape), kernel.dtype)
    return call, Map(squeezed_shape(shape), (store,), scope.origin)


def _pool(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator = scope.node.operator
    x = scope.operand("self")
    shape, dtype = scope.spec()
    rank = int(operator.split("pool")[1][0])
    several = len(scope.node.outputs) > 1
    average = "avg" in operator
    if "adaptive" in operator:
        inside, outside = x.shape[-rank:], shape[-rank:]
        if any(i % o for i, o in zip(inside, outside)):
            raise scope.refuse("windows of unequal size")
        window = tuple(i // o for i, o in zip(inside, outside))
        stride, padding, dilation, divisor, count = window, (0,) * rank, (1,) * rank, None, True
        if math.prod(outside) == 1:
            found = _global(scope, x, rank, average)
            return (found, *[None] * (len(scope.node.outputs) - 1)) if several else found
    else:
        window = _spread(scope.argument("kernel_size"), rank)
        stride = _spread(scope.argument("stride") or window, rank)
        padding, dilation = _spread(scope.argument("padding"), rank), _spread(scope.argument("dilation") or 1, rank)
        divisor, count = scope.argument("divisor_override"), scope.argument("count_include_pad") is not False
    buffer = scope.fresh(shape, dtype)
    kernel = Pool(
        operation="average" if average else "max",
        source=x.shape,
        element=Load(x.view, x.dtype),
        shape=shape,
        window=window,
        stride=stride,
        padding=padding,
        dilation=dilation,
        count_padding=count,
        divisor=divisor,
        stores=(StoreOp(marked(buffer), Name(WINDOW), dtype),),
        dtype=dtype,
        origin=scope.origin,
    )
    scope.state(kernel, None if several else call_of(scope, (buffer.name,)))
    result = LoweredTensor(marked(buffer), dtype)
    return (result, *[None] * (len(scope.node.outputs) - 1)) if several else result


def _global(scope: LoweringScope, x: LoweredTensor, rank: int, average: bool) -> LoweredTensor:
    """One number for each channel: a row, and no window."""
    dims = tuple(range(len(x.shape) - rank, len(x.shape)))
    name, word = ("total", "sum") if average else ("top", "max")
    body = apply("div", Name(name), scope.count(x, dims)) if average else Name(name)
    return scope.rows(x.shape, dims, [(name, word, Load(x.view, x.dtype))], body, None, scope.spec()[1], keep=True)


def _scan(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    operator, x = scope.node.operator, scope.operand("self")
    shape, dtype = scope.spec()
    if not shape:
        raise scope.refuse("of a single number")
    dim = scope.argument("dim") % len(shape)
    order = (*(a for a in range(len(shape)) if a != dim), dim)
    kept = tuple(shape[a] for a in order[:-1])
    buffer = scope.fresh(shape, dtype)
    if shape[dim] == 1 or dtype != x.dtype:
        raise scope.refuse("along a single element, or to another data type")
    kernel = Scan(
        operation=SCANS[operator],  # type: ignore[arg-type]
        kept=squeezed_shape(kept),
        length=shape[dim],
        element=squeezed_body(Load(permuted(x.view, order), x.dtype), (*kept, shape[dim])),
        stores=(StoreOp(squeezed(permuted(marked(buffer), order)), Name(RUNNING), dtype),),
        dtype=dtype,
        origin=scope.origin,
    )
    several = len(scope.node.outputs) > 1
    scope.state(kernel, None if several else call_of(scope, (buffer.name,)))
    result = LoweredTensor(marked(buffer), dtype)
    return (result, None) if several else result
