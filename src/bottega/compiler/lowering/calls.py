"""Operators left to torch, written as a person would call them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional
from torch.utils._pytree import tree_leaves

from bottega.compiler.call_names import self_text
from bottega.compiler.expression import Load, Name
from bottega.compiler.kernel import ACCUMULATOR, RECURRENT_CELLS, FunctionCall, GroupedProduct, PythonText, StoreOp
from bottega.compiler.lowering import recurrence
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope
from bottega.compiler.sizes import marked
from bottega.compiler.traced_graph import Ref
from bottega.compiler.view import Shape, View

FUNCTIONAL = frozenset(
    (
        *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "max_pool1d"),
        *("max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("adaptive_avg_pool3d", "pad"),
    )
)
TORCH = frozenset(
    (
        *(
            "matmul",
            "mm",
            "bmm",
            "addmm",
            "baddbmm",
            "mv",
            "addmv",
            "cumsum",
            "cumprod",
            "cat",
            "stack",
            "flip",
            "roll",
            "sort",
        ),
        *("topk", "gather", "index_select", "logcumsumexp", "cdist", "repeat_interleave"),
        *("cross", "median", "kthvalue", "scatter", "scatter_add", "index_add", "bincount", "logcumsumexp"),
        *("argsort", "searchsorted", "bucketize", "trace", "prod", "diag"),
        *("select_scatter", "slice_scatter", "masked_select", "bilinear", "embedding"),
    )
)
METHODS = {"repeat": "repeat", "unfold": "unfold"}
GROUPED = {"_grouped_mm": ("self", "mat2", "offs"), "grouped_mm_fallback": ("input", "weight", "offs")}
"""Products of groups of rows with a matrix each, by torch and by transformers, and what they call their operands."""
OPERATORS = (
    TORCH
    | FUNCTIONAL
    | set(METHODS)
    | set(GROUPED)
    | set(RECURRENT_CELLS)
    | {"constant_pad_nd", "upsample_nearest2d", "upsample_bilinear2d"}
)


def lower(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    """The current node as a call, with a buffer for each of its outputs."""
    if _pads_nothing(scope):
        return scope.operand("self")
    names: list[str] = []
    results: list[LoweredTensor | None] = []
    for number, spec in enumerate(scope.node.outputs):
        if spec is None:
            raise scope.refuse("returns something that is no tensor")
        buffer = scope.fresh(spec.shape, spec.dtype, f"_{number}" if number else "")
        names.append(buffer.name)
        results.append(LoweredTensor(marked(buffer), spec.dtype))
    call = _special(scope, tuple(names)) or call_of(scope, tuple(names))
    scope.looked_at.update(scope.node.arguments)
    pieces = recurrence.layers(scope, tuple(names), call.arguments[1:]) if scope.node.operator in RECURRENT_CELLS else ()
    scope.state(_grouped(scope, names[0]) if scope.node.operator in GROUPED else None, call, pieces=pieces)
    return tuple(results) if len(results) > 1 else results[0]  # type: ignore[return-value]


def _grouped(scope: LoweringScope, name: str) -> GroupedProduct | None:
    """The kernel for a product of groups of rows with a matrix each; None for one of other groups."""
    rows, matrices, ends = (scope.operand(operand) for operand in GROUPED[scope.node.operator])
    if len(rows.shape) != 2 or len(matrices.shape) != 3:
        return None
    groups, depth, columns = matrices.shape
    store = StoreOp(marked(scope.buffers[name]), Name(ACCUMULATOR), scope.buffers[name].dtype)
    left = Load(rows.view, rows.dtype)
    return GroupedProduct(
        groups, rows.shape[0], columns, depth, 1, left, matrices.view, ends.view, rows.dtype, (store,), scope.origin
    )


def _pads_nothing(scope: LoweringScope) -> bool:
    """A padding of zero on every side is the tensor itself, unless the caller gets it, who may change it."""
    if scope.node.operator not in ("constant_pad_nd", "pad") or any(scope.argument("pad")):
        return False
    return scope.node.name not in {ref.name for ref in tree_leaves(scope.graph.returned) if isinstance(ref, Ref)}


def left_to_torch(scope: LoweringScope) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    """An operator that nothing here understands, by its own overload: what is around it is still ours."""
    node = scope.node
    if not node.target.startswith("aten.") or node.draws:
        raise scope.refuse("draws random numbers" if node.draws else "is not understood")
    names = tuple(scope.fresh(*scope.spec(n), f"_{n}" if n else "").name for n in range(len(node.outputs)))
    scope.state(None, own_overload(scope, names))
    results = tuple(LoweredTensor(marked(scope.buffers[name]), scope.buffers[name].dtype) for name in names)
    return results if len(results) > 1 else results[0]


def own_overload(scope: LoweringScope, results: tuple[str, ...]) -> FunctionCall:
    given = [(name, _tensor_or(scope, value)) for name, value in scope.node.arguments.items()]
    keywords = tuple((name, value) for name, value in given if name in scope.node.keywords and value is not None)
    arguments = tuple(value for name, value in given if name not in scope.node.keywords)
    return FunctionCall(f"torch.ops.{scope.node.target}", arguments, keywords, results, (scope.node.operator,))


def _tensor_or(scope: LoweringScope, value: Any) -> Any:
    """An argument of an overload, which takes no number for a tensor: one that `forward` makes of a number is made again."""
    if not isinstance(value, Ref) or value.name not in scope.graph.numbers:
        return _argument(scope, value)
    number = _argument(scope, scope.graph.numbers[value.name])
    text = number.text if isinstance(number, PythonText) else repr(number)
    kind = scope.spec()[1] if scope.spec()[1] != "bool" else "float32"
    return PythonText(f"torch.full((), {text}, dtype=torch.{kind}, device={scope.graph.inputs[0][0]}.device)")


def _special(scope: LoweringScope, names: tuple[str, ...]) -> FunctionCall | None:
    operator = scope.node.operator
    origin = (operator,)
    if operator in RECURRENT_CELLS:
        x = scope.operand("input")
        # Where the task's module is a recurrent layer itself, the class of what is written is below the layer's.
        function = self_text(scope.node.module) if scope.node.module else "super().forward"
        return FunctionCall(function, (x.view, *_states(scope)), (), names, origin, operator == "lstm")
    if operator in GROUPED:
        rows, matrices, ends = (scope.operand(name).view for name in GROUPED[operator])
        return FunctionCall("F.grouped_mm", (rows, matrices), (("offs", ends),), names, origin)
    if operator == "constant_pad_nd":
        x = scope.operand("self")
        value = scope.argument("value") or 0
        extra = () if value == 0 else (("value", _argument(scope, value)),)
        return FunctionCall("F.pad", (x.view, scope.argument("pad")), extra, names, origin)
    if operator.startswith("upsample"):
        x, shape = scope.operand("self" if scope.argument("self") is not None else "input"), scope.spec()[0]
        if not steps_by_sizes(scope, x.shape):
            raise scope.refuse("by factors that sizes do not tell")
        keywords: list[tuple[str, Any]] = [("size", shape[2:])]
        if "bilinear" in operator:
            keywords += [("mode", "bilinear"), ("align_corners", bool(scope.argument("align_corners")))]
        return FunctionCall("F.interpolate", (x.view,), tuple(keywords), names, origin)
    if operator in METHODS:
        x = scope.operand("self")
        arguments = tuple(value for name, value in scope.node.arguments.items() if name != "self")
        arguments = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], tuple) else arguments
        return FunctionCall(f"{x.view.text}.{METHODS[operator]}", tuple(arguments), (), names, origin)
    return None


def steps_by_sizes(scope: LoweringScope, inside: Shape) -> bool:
    """Whether an interpolation's sizes say how far apart its places are: where it is given factors, torch steps by those."""
    factors = scope.argument("scale_factors") or [
        scope.argument(name) for name in ("scales_d", "scales_h", "scales_w", "scales")
    ]
    given = [factor for factor in factors if factor is not None]
    return all(size == before * factor for size, before, factor in zip(scope.spec()[0][::-1], inside[::-1], given[::-1]))


def _states(scope: LoweringScope) -> tuple[Any, ...]:
    """The states that a recurrence begins with, unless they are the zeros that the module makes itself where none are given."""
    state = scope.argument("hx")
    states = state if isinstance(state, tuple) else (state,)
    own = {node.name for node in scope.graph.nodes if node.operator == "zeros" and node.module == scope.node.module}
    if all(isinstance(ref, Ref) and ref.name in own for ref in states):
        return ()
    made = [scope.tensor(ref).view for ref in states]
    return (made[0] if len(made) == 1 else tuple(made),)


def call_of(
    scope: LoweringScope,
    results: tuple[str, ...],
    function: str = "",
    arguments: tuple[Any, ...] | None = None,
    keywords: tuple[tuple[str, Any], ...] = (),
) -> FunctionCall:
    """The node as a call: arguments in the schema's order, trailing defaults left out."""
    node = scope.node
    if not function:
        function = _function(scope, node.operator)
    if arguments is None:
        given = [(name, _argument(scope, value)) for name, value in node.arguments.items()]
        while given and _default(given[-1]):
            given.pop()
        arguments = tuple(value for name, value in given if name not in node.keywords)
        keywords = (*keywords, *(pair for pair in given if pair[0] in node.keywords and not _default(pair)))
    return FunctionCall(function, arguments, keywords, results, (node.operator,))


def _default(pair: tuple[str, Any]) -> bool:
    name, value = pair
    if name in ("stride", "dilation", "groups", "alpha", "beta"):
        values = value if isinstance(value, tuple) else (value,)
        return name != "stride" and all(v == 1 for v in values)
    usual: dict[str, tuple[Any, ...]] = {
        "padding": (0, (0,), (0, 0), (0, 0, 0)),
        "output_padding": (0, (0,), (0, 0), (0, 0, 0)),
        "ceil_mode": (False,),
        "count_include_pad": (True,),
        "dtype": (None,),
        "bias": (None,),
        "divisor_override": (None,),
        "output_size": (None,),
        "sparse_grad": (False,),
        "compute_mode": (None,),
    }
    return name in usual and value in usual[name]


def _function(scope: LoweringScope, operator: str) -> str:
    if operator in FUNCTIONAL and hasattr(torch.nn.functional, operator):
        return f"F.{operator}"
    if operator in TORCH and hasattr(torch, operator):
        return f"torch.{operator}"
    raise scope.refuse("is not understood")


def _argument(scope: LoweringScope, value: Any) -> Any:
    if isinstance(value, Ref):
        if value.name in scope.graph.numbers:
            return _argument(scope, scope.graph.numbers[value.name])
        return scope.tensor(value).view
    if isinstance(value, tuple):
        return tuple(_argument(scope, item) for item in value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return PythonText(str(value))
    if isinstance(value, torch.device) and scope.graph.inputs:  # it was traced without one
        return PythonText(f"{scope.graph.inputs[0][0]}.device")
    if isinstance(value, float) and not math.isfinite(value):
        return PythonText(f"float('{value}')")
    if isinstance(value, bool | int | float | complex | str | View) or value is None:
        return value
    raise scope.refuse(f"cannot write {value!r} down")
