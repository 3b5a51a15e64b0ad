"""What rounding may break either way: integers (quantized values, indices of a maximum, comparisons) and steps of numbers (`floor`, values that are
quantized and scaled back). Where inputs that differ by as much as fp32 rounds give the candidate's number too, it is right.

A count of such elements would not do: of a small output a single one is more than any share that a wrong kernel could be allowed.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import OutputComparison, as_signed

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


def are_steps(
    got: torch.Tensor,
    want: torch.Tensor,
    rest: OutputComparison,
    place: int,
    oracle: Oracle,
    inputs: InputSet,
    state: str,
    outputs: list[torch.Tensor],
) -> bool:
    """Whether a floating output is right but for a few elements on the other side of a step. `rest` is to compare all others with the truth."""
    if oracle.kind == "reference" or want.is_complex():
        return False

    def beyond(values: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        values, right = values.double(), right.double()
        return ~((values - right).abs() <= rest.limit.element * (right.abs() + rest.scale)) & (values != right)

    unlike = beyond(got, want)
    if not 0 < int(unlike.sum()) <= FEWEST + unlike.numel() // ONE_IN:
        return False
    others, begun = torch.where(unlike, want, got), time.monotonic()
    for nudge in range(1 + NUDGES):
        tensors = [_nudged(each) for each in inputs.tensors] if nudge else inputs.tensors
        for piece in oracle.truth(replace(inputs, tensors=tensors), state, outputs):
            rows, truth = piece.rows if unlike.dim() else ..., piece.outputs[place]
            if truth.shape != unlike[rows].shape:
                return False
            if not nudge:
                rest.feed_all(others[rows], want[rows], truth)
            unlike[rows] &= beyond(got[rows], truth)
        if not nudge and rest.problem:
            return False
        if not bool(unlike.any()):
            return True
        if time.monotonic() - begun > LONGEST_SECONDS:
            break
    return False


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.dtype.itemsize == 1:
        return tensor
    wide = tensor.to(torch.float64, copy=True)
    return wide.mul_(torch.rand_like(wide).mul_(2 * NUDGE).add_(1 - NUDGE))
