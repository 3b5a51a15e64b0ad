"""A workload from a call graph: of every call what it walks over and on what sizes, so that a card's conditions can be checked by code.

Sizes are those that a call graph shows. An operator that is not known here is elementwise where its result has the shape that its operands
broadcast to, and `other` else; calls that only rearrange are left out.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bottega.compiler.callgraph import SAME_VALUES, SPLITTING, Call, CallGraph, NamedTensor, Shape
from bottega.compiler.library.choices import product_size
from bottega.core.device import DeviceFacts
from bottega.core.workload import (
    ALONG_AN_AXIS,
    DTYPES,
    ELEMENTWISE,
    KINDS,
    LAST_AXIS,
    LAYOUTS,
    OPERATORS,
    OTHER,
    OTHER_AXIS,
    SCAN,
    SIZES,
    Operation,
    Workload,
    known_kind,
)

MOST = 256
"""Different operations of one task."""
LARGEST = 2**62
PRODUCTS = ("linear", "matmul", "mm", "bmm")
"""Whose sizes are those of one product."""
_SECOND_ARGUMENT = frozenset(
    ("sum", "mean", "amax", "amin", "prod", "var", "std", "softmax", "log_softmax", "softmin", "logsumexp", "argmax", "argmin", *OPERATORS[SCAN])
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


def operations_from(data: Any) -> tuple[Operation, ...]:
    """Operations that a sandbox sent, each once; nothing where they are none."""
    try:
        found = [
            Operation(one["operator"], one["kind"], one["dtype"], dict(one["sizes"]), one["layout"]) for one in data[:MOST]
        ]
    except (KeyError, TypeError, ValueError):
        return ()
    return tuple(found) if all(map(_sound, found)) else ()


def _sound(one: Operation) -> bool:
    named = isinstance(one.operator, str) and re.fullmatch(r"\w{1,100}", one.operator)
    sizes = all(name in SIZES and type(size) is int and 0 <= size <= LARGEST for name, size in one.sizes.items())
    return bool(named) and one.kind in KINDS and one.dtype in DTYPES and sizes and one.layout in ("", *LAYOUTS)


def operations_in(graph: CallGraph) -> list[dict[str, Any]]:
    """Each kind of operation once, as plain data: a loop has the same ones over and over."""
    every = {repr(one): one for one in workload_of(graph).operations}
    return [asdict(one) for one in every.values()][:MOST]


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
    kind, dtype = _kind(operator, call, shapes), _dtype([one.dtype for one in given])
    axes = _axes(operator, call, shapes[0]) if kind in ALONG_AN_AXIS else None
    if axes is None:
        sizes = sizes_of(operator, [call.shape] if kind == ELEMENTWISE else shapes)
        return Operation(operator, kind, dtype, {**sizes, "bytes": moved})
    columns = math.prod(shapes[0][axis] for axis in axes) if operator != "group_norm" else axes[0]
    rows = max(1, math.prod(shapes[0]) // max(1, columns))
    trailing = operator in ("group_norm", "layer_norm", "rms_norm") or axes == list(
        range(len(shapes[0]) - len(axes), len(shapes[0]))
    )
    sizes = {"rows": rows, "columns": columns, "elements": math.prod(shapes[0]), "bytes": moved}
    return Operation(operator, kind, dtype, sizes, LAST_AXIS if trailing else OTHER_AXIS)


def _dtype(dtypes: Sequence[str]) -> str:
    """What is computed in: masks and indices may stand before the values."""
    return next((dtype for dtype in dtypes if "float" in dtype), dtypes[0])


def _kind(operator: str, call: Call, shapes: Sequence[Shape]) -> str:
    if operator in ("max", "min") and len(shapes) > 1:
        return ELEMENTWISE
    return known_kind(operator) or (ELEMENTWISE if call.shape == _broadcast(shapes) else OTHER)


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
