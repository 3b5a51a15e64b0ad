"""Data types of the oracle's arithmetic, and of Python's numbers in comparisons."""

from __future__ import annotations

import torch

NUMBERS = torch.float32
"""As what Python's floats among the outputs are compared: they come out of a task's own arithmetic, which is seldom wider."""


def widest(dtype: torch.dtype) -> torch.dtype:
    """In what the oracle computes where the task computes in `dtype`; integers and booleans stay what they are."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype
