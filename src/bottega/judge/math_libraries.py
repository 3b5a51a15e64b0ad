"""Initialises the vectorised functions of MKL before a module uses them."""

from __future__ import annotations

import torch

VECTORISED = (
    *(
        "exp",
        "expm1",
        "exp2",
        "log",
        "log1p",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
    ),
    *("sqrt", "rsqrt", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "trunc", "ceil", "floor", "round", "abs", "reciprocal"),
)


def warm_libraries() -> None:
    """Call each function once, from one thread. MKL initialises itself on the first call; when several threads make that call at the same
    time, one of them may get values of a lower accuracy."""
    for dtype in (torch.float32, torch.float64):
        ones = torch.ones(4, dtype=dtype)
        for name in VECTORISED:
            getattr(torch, name)(ones / 2)
        torch.mm(ones.view(2, 2), ones.view(2, 2))
