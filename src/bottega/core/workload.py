"""A workload: what a task's calls compute, on what sizes and on which device. A card's typed conditions are checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bottega.core.device import DeviceFacts

PRODUCT, CONVOLUTION, ATTENTION, POOLING, SCAN, ROW, ELEMENTWISE, OTHER = (
    "product", "convolution", "attention", "pooling", "scan", "row", "elementwise", "other",
)  # fmt: skip
KINDS = (PRODUCT, CONVOLUTION, ATTENTION, POOLING, SCAN, ROW, ELEMENTWISE, OTHER)
"""What an operation's kernel walks over; `row` is a reduction, a softmax or a norm along an axis."""
SIZES = ("rows", "columns", "depth", "batch", "channels", "elements", "bytes")
LAST_AXIS, OTHER_AXIS = "last axis", "other axis"
LAYOUTS = (LAST_AXIS, OTHER_AXIS)
ALONG_AN_AXIS = (ROW, SCAN)
"""The kinds that have a layout."""
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128", "float8_e4m3fn",
    "float8_e5m2",
)  # fmt: skip
OPERATORS = {
    PRODUCT: ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "mv", "bilinear", "gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell",
              "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    ATTENTION: ("scaled_dot_product_attention", "multi_head_attention_forward"),
    SCAN: ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
    ROW: ("sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "norm", "linalg_vector_norm", "argmax", "argmin", "logsumexp", "softmax",
          "log_softmax", "softmin", "normalize", "cosine_similarity", "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm",
          "cross_entropy", "nll_loss", "triplet_margin_loss", "pairwise_distance", "any", "all", "var_mean", "std_mean", "median"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in OPERATORS.items() for name in names}


def known_kind(operator: str) -> str | None:
    """By its name; None where its shapes tell."""
    if operator in _KIND_OF:
        return _KIND_OF[operator]
    return CONVOLUTION if operator.startswith("conv") else POOLING if "pool" in operator else None


def known_sizes(kind: str) -> frozenset[str]:
    """What an operation of the kind may have."""
    more = {PRODUCT: ("rows", "depth", "batch"), CONVOLUTION: ("channels", "depth"), ROW: ("rows",), SCAN: ("rows",)}
    return frozenset(("columns", "elements", "bytes", *more.get(kind, ())))


@dataclass(frozen=True)
class Operation:
    """One call."""

    operator: str
    """torch's name for it: `linear`, `softmax`."""
    kind: str
    dtype: str
    sizes: Mapping[str, int]
    """By names of `SIZES`, those that are known."""
    layout: str = ""
    """Of operations along an axis: whether a row's elements are neighbours."""


@dataclass(frozen=True)
class Workload:
    operations: tuple[Operation, ...]
    """Empty where the task has no call graph: then no condition on operations holds."""
    device: DeviceFacts | None = None
    """None where no device is known: then no condition on devices is checked."""
