"""A workload from a call graph: of every call what it walks over and on what sizes, so that a card's conditions can be checked by code.

Sizes are those that a call graph shows. An operator that is not known here is elementwise where its result has the shape that its operands
broadcast to, and `other` else; calls that only rearrange are left out.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bottega.compiler.callgraph import SAME_VALUES, SPLITTING, Call, CallGraph, NamedTensor, Shape
from bottega.compiler.library.choices import product_size
from bottega.core.device import DeviceFacts
from bottega.core.workload import (
    ATTENTION,
    CONVOLUTION,
    ELEMENTWISE,
    LAST_AXIS,
    OTHER,
    OTHER_AXIS,
    POOLING,
    PRODUCT,
    ROW,
    SCAN,
    Operation,
    Workload,
)

PRODUCTS = ("linear", "matmul", "mm", "bmm")
_KINDS = {
    PRODUCT: (*PRODUCTS, "addmm", "baddbmm", "einsum", "mv", "bilinear", "gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell",
              "rnn_tanh_cell", "rnn_relu_cell"),
    ATTENTION: ("scaled_dot_product_attention", "multi_head_attention_forward"),
    SCAN: ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
    ROW: ("sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "norm", "linalg_vector_norm", "argmax", "argmin", "logsumexp", "softmax",
          "log_softmax", "softmin", "normalize", "cosine_similarity", "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm",
          "cross_entropy", "nll_loss", "triplet_margin_loss", "pairwise_distance", "any", "all", "var_mean", "std_mean", "median"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_SECOND_ARGUMENT = frozenset(
    ("sum", "mean", "amax", "amin", "prod", "var", "std", "softmax", "log_softmax", "softmin", "logsumexp", "argmax", "argmin", *_KINDS[SCAN])
)  # fmt: skip
"""Their second positional argument is the axis; of `max` and `min` it may be another tensor."""
_NO_WORK = (
    SAME_VALUES | SPLITTING | {"expand", "expand_as", "view_as", "zeros", "ones", "arange", "zeros_like", "ones_like", "tensor"}
)
_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def workload_of(graph: CallGraph | None, device: DeviceFacts | None = None) -> Workload:
    if graph is None:
        return Workload((), device)
    tensors = {one.name: one for given in graph.inputs for one in given.tensors}
    tensors |= {one.name: one for one in graph.weights}
    tensors |= {one.name: one for call in graph.calls for one in call.results}
    found = (_operation(call, tensors) for call in graph.calls if call.operator.rstrip("_") not in _NO_WORK)
    return Workload(tuple(one for one in found if one is not None), device)


def sizes_of(operator: str, shapes: Sequence[Shape]) -> dict[str, int]:
    """Of a call that has no axis, from the shapes of its operands."""
    size = product_size(operator, shapes) if operator in PRODUCTS else None
    if size is not None:
        return dict(zip(("rows", "columns", "depth", "batch"), size))
    sizes = {"elements": math.prod(shapes[0])}
    if operator.startswith("conv") and len(shapes) > 1 and shapes[1]:
        return {**sizes, "channels": shapes[1][0], "depth": math.prod(shapes[1][1:])}
    return {**sizes, "columns": shapes[0][-1] if shapes[0] else 1}


def _operation(call: Call, tensors: Mapping[str, NamedTensor]) -> Operation | None:
    operator = call.operator.rstrip("_")
    given = [tensors[name] for argument in call.arguments for name in argument.tensors if name in tensors]
    if not given:
        return None
    shapes = [one.shape for one in given]
    moved = sum(math.prod(one.shape) * _BYTES.get(one.dtype, 4) for one in (*given, *call.results))
    kind = _kind(operator, call, shapes)
    axes = _axes(operator, call, shapes[0]) if kind in (ROW, SCAN) else None
    if axes is None:
        sizes = sizes_of(operator, [call.shape] if kind == ELEMENTWISE else shapes)
        return Operation(operator, kind, given[0].dtype, {**sizes, "bytes": moved})
    columns = math.prod(shapes[0][axis] for axis in axes) if operator != "group_norm" else axes[0]
    rows = max(1, math.prod(shapes[0]) // max(1, columns))
    trailing = operator in ("group_norm", "layer_norm", "rms_norm") or axes == list(
        range(len(shapes[0]) - len(axes), len(shapes[0]))
    )
    sizes = {"rows": rows, "columns": columns, "elements": math.prod(shapes[0]), "bytes": moved}
    return Operation(operator, kind, given[0].dtype, sizes, LAST_AXIS if trailing else OTHER_AXIS)


def _kind(operator: str, call: Call, shapes: Sequence[Shape]) -> str:
    if operator in ("max", "min") and len(shapes) > 1:
        return ELEMENTWISE
    if operator in _KIND_OF:
        return _KIND_OF[operator]
    if operator.startswith("conv"):
        return CONVOLUTION
    if "pool" in operator:
        return POOLING
    return ELEMENTWISE if call.shape == _broadcast(shapes) else OTHER


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    dims = max(map(len, shapes))
    wide = [(1,) * (dims - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*wide))


def _axes(operator: str, call: Call, shape: Shape) -> list[int] | None:
    """The axes that a row lies along, in order; of `group_norm` its length instead. None where they are not told."""
    plain = [_literal(one.text) for one in call.arguments if not one.keyword]
    named = {one.keyword: _literal(one.text) for one in call.arguments if one.keyword}
    dims = len(shape)
    if operator in ("layer_norm", "rms_norm"):
        over = named.get("normalized_shape", plain[1] if len(plain) > 1 else None)
        return list(range(dims - len(over), dims)) if isinstance(over, tuple) else None
    if operator == "group_norm":
        groups = named.get("num_groups", plain[1] if len(plain) > 1 else None)
        return [math.prod(shape[1:]) // groups] if isinstance(groups, int) and groups else None
    if operator == "instance_norm":
        return list(range(2, dims))
    if operator == "batch_norm":
        return [axis for axis in range(dims) if axis != 1]
    if operator in ("cross_entropy", "nll_loss"):
        return [min(1, dims - 1)]
    if operator in ("triplet_margin_loss", "pairwise_distance"):
        return [dims - 1]
    usual = {"normalize": 1, "cosine_similarity": 1}.get(operator)
    second = plain[1] if len(plain) > 1 and operator in _SECOND_ARGUMENT else None
    axis = named.get("dim", second if second is not None else usual)
    some = axis if isinstance(axis, tuple) else (axis,) if isinstance(axis, int) else tuple(range(dims))
    if not all(isinstance(one, int) and -dims <= one < dims for one in some) or not dims:
        return None
    return sorted({one % dims for one in some})


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return tuple(value) if isinstance(value, list) else value
