"""Tolerances: how far from the oracle an output may be. fp32 stays fp32, and a candidate need not be much more exact than the reference.

Limits are relative to the fp64 oracle. Each is the larger of a floor for the data type and a multiple of the
reference's own error, so that long sums and ill-conditioned tasks are judged by what their own arithmetic can do.
fp32 summed in another order stays below 5e-5 for any honest order; tf32 and fp16 operands lie near 3e-4, bf16 near 3e-3.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    overall: float
    """Relative error in the root mean square, over a whole output."""
    element: float
    """Error of one element, relative to its own size plus the output's root mean square."""
    slack: float
    """How many times the reference's own error is allowed where that is larger."""


_BY_DTYPE = {  # of an output's own data type
    "float64": Tolerance(1e-11, 1e-9, 16),
    "float32": Tolerance(5e-5, 3e-4, 8),
    "float16": Tolerance(1.5e-3, 8e-3, 3),
    "bfloat16": Tolerance(1e-2, 6e-2, 3),
    "complex32": Tolerance(1.5e-3, 8e-3, 3),
    "complex64": Tolerance(5e-5, 3e-4, 8),
    "complex128": Tolerance(1e-11, 1e-9, 16),
}
_BY_ALLOWED_PRECISION = {  # of an fp32 output, where `--precision` allows less
    "tf32": Tolerance(2e-3, 2e-2, 8),
    "fp16": Tolerance(4e-3, 3e-2, 4),
    "bf16": Tolerance(2e-2, 1.5e-1, 4),
}


def tolerance(dtype: str, precision: str) -> Tolerance:
    """The limits for an output of this data type under the precision the user allowed."""
    base = _BY_DTYPE.get(dtype, Tolerance(8e-2, 5e-1, 3))
    allowed = _BY_ALLOWED_PRECISION.get(precision)
    if allowed is None or dtype in ("float64", "complex128"):
        return base
    return Tolerance(max(base.overall, allowed.overall), max(base.element, allowed.element), max(base.slack, allowed.slack))
