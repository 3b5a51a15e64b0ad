"""Slices of an output that are faint beside the others: what is wrong there is too little to be seen in a whole.

A column of means beside one of sums, a branch that is a hundredth of the stream to which it is added: on `spiked` inputs some slices of the stream
are faint, and the branch is all that is left there. Each slice along each axis is compared by itself, with a wide limit.
"""

from __future__ import annotations

import torch

from bottega.judge.tolerance import Tolerance

PIECE = 1 << 22
FEWEST = 32
"""Elements of a slice of which an error can be told from chance."""
FAINT = 1 / 8
"""Of the whole's size: of larger slices each element shows."""
FEWEST_FELT = 6
"""Elements that an error in a slice must be spread over, as its participation ratio counts them, to be judged by its root mean square. A giant
row has an element in every column; where that is faint by chance and the reference happens to round it well, it would be all that is seen of the
column. An error that one element dominates is judged by the square of the mean root: it hardly feels that element, but all the others."""
WITHIN, SLACK, SHARE = 5, 16, 1 / 32
"""An error in a slice is allowed that is so many times the limit for the whole, relative to the slice; or so many times the reference's; or so much
of the limit, relative to the whole: what honest kernels lose beside large numbers."""


class FaintSlices:
    def __init__(self, shape: torch.Size):
        self.shape = shape
        self.axes = [axis for axis, size in enumerate(shape) if size > 1 and shape.numel() >= FEWEST * size]
        self._sums: dict[int, torch.Tensor] = {}
        """By axis, of each slice: squares of the truth, of the candidate's errors and the reference's; fourth powers and roots of the candidate's."""

    def feed_all(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, first: int = 0) -> None:
        """Take in the part of the output that begins at entry `first` of the first axis."""
        if self.axes and truth.is_floating_point():
            self._feed(got, reference, truth, [first] + [0] * (truth.dim() - 1))

    def _feed(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, start: list[int]) -> None:
        if truth.numel() > PIECE:
            axis = max(range(truth.dim()), key=lambda each: truth.shape[each])
            half = truth.shape[axis] // 2
            for begin, length in ((0, half), (half, truth.shape[axis] - half)):
                parts = [each.narrow(axis, begin, length) for each in (got, reference, truth)]
                self._feed(parts[0], parts[1], parts[2], [n + begin * (i == axis) for i, n in enumerate(start)])
            return
        got, reference, truth = got.double(), reference.double(), truth.double()
        finite = got.isfinite() & reference.isfinite() & truth.isfinite()
        error = got - truth
        numbers = torch.stack([truth, error, reference - truth, error, error]).masked_fill_(~finite, 0.0)
        numbers[:4].square_()
        numbers[3].square_()
        numbers[4].abs_().sqrt_()
        for axis in self.axes:
            if axis not in self._sums:
                self._sums[axis] = torch.zeros(5, self.shape[axis], dtype=torch.float64, device=truth.device)
            others = [1 + each for each in range(truth.dim()) if each != axis]
            self._sums[axis].narrow(1, start[axis], truth.shape[axis]).add_(numbers.sum(others) if others else numbers)

    def problem(self, scale: float, limit: Tolerance) -> str:
        """In words, the slice that is wrong; empty where none is, or where the reference itself is beyond the limit: then a token that goes to
        another expert is a slice that is wrong. `scale`: root mean square of the whole output."""
        rows = [self._worst(axis, scale, limit) for axis in self._sums]
        for axis, numbers in zip(self._sums, torch.stack(rows).tolist() if rows else ()):  # read once
            own, excess, size, error, worst = numbers
            if own > limit.overall * scale:
                return ""
            if excess > 0:
                where = ", ".join([":"] * axis + [str(int(worst))] + [":"] * (len(self.shape) - axis - 1))
                return (
                    f"the slice [{where}] is wrong: its elements are {size:.2g} in size, and off by {error:.2g}; "
                    "beside others, which are larger, that is hardly seen"
                )
        return ""

    def _worst(self, axis: int, scale: float, limit: Tolerance) -> torch.Tensor:
        """The reference's error in all, and of the slice that is most beyond what is allowed: by how much, its size, error and number."""
        sums = self._sums[axis]
        count = self.shape.numel() // self.shape[axis]
        size, error, own = (sums[:3] / count).sqrt()
        spread = sums[1].square() >= FEWEST_FELT * sums[3]
        error = torch.where(spread, error, (sums[4] / count).square())
        allowed = torch.maximum(WITHIN * limit.overall * size, SLACK * own).clamp_(min=SHARE * limit.overall * scale)
        excess = torch.where(size < FAINT * scale, error - allowed, 0.0)
        worst = (excess / allowed.clamp(min=1e-300)).argmax().view(1)
        chosen = [each.index_select(0, worst) for each in (excess, size, error)]
        return torch.cat([own.square().mean().sqrt().view(1), *chosen, worst.double()])
