"""Integers that rounding may break either way: quantized values, indices of a maximum, comparisons. Where inputs that differ by as much as fp32
rounds give the candidate's number too, it is right.

A count of such elements would not do: of a small output a single one is more than any share that a wrong kernel could be allowed.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import as_signed

NUDGE = 2.0**-21
"""Four units in the last place of fp32, at most, relative to an input's size."""
NUDGES = 16
"""Draws, as far as they are needed: each shows a tie with a chance of a half or so."""
LONGEST_SECONDS = 20.0
FEWEST, ONE_IN = 8, 20_000
"""Elements that are looked at so: more than that, or one in so many, are no ties."""


def are_ties(
    got: torch.Tensor, want: torch.Tensor, place: int, oracle: Oracle, inputs: InputSet, state: str, outputs: list[torch.Tensor]
) -> bool:
    """Whether an output, the one at this `place`, differs from the reference's in ties alone."""
    unlike = as_signed(got) != as_signed(want)
    if oracle.kind == "reference" or int(unlike.sum()) > FEWEST + unlike.numel() // ONE_IN:
        return False
    begun = time.monotonic()
    for _ in range(NUDGES):
        if not bool(unlike.any()) or time.monotonic() - begun > LONGEST_SECONDS:
            break
        for piece in oracle.truth(replace(inputs, tensors=[_nudged(each) for each in inputs.tensors]), state, outputs):
            rows = piece.rows if unlike.dim() else ...
            if piece.outputs[place].shape != unlike[rows].shape:
                return False  # how many there are depends on the values
            unlike[rows] &= as_signed(got[rows]) != as_signed(piece.outputs[place].to(got.dtype))
    return not bool(unlike.any())


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.dtype.itemsize == 1:
        return tensor
    wide = tensor.to(torch.float64, copy=True)
    return wide.mul_(torch.rand_like(wide).mul_(2 * NUDGE).add_(1 - NUDGE))
