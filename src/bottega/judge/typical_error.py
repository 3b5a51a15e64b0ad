"""The error of a typical element, for outputs of which the reference gets a few quite wrong.

A token that goes to another expert, or a code that is the second nearest, is wrong altogether: such elements are all that a root mean square shows,
and the limit, which is a multiple of the reference's error, then lets arithmetic in four bits pass. The median does not see them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from bottega.judge.secret import secret_indices
from bottega.judge.tolerance import Tolerance

PIECE, LOOKED_AT = 1 << 22, 1 << 12
"""Elements of which so many are looked at."""


@dataclass
class TypicalError:
    rows: list[torch.Tensor] = field(default_factory=list, repr=False)
    """Of elements that were drawn: the candidate's error and the reference's."""

    def feed_all(self, got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor) -> None:
        if not truth.is_floating_point() or not truth.numel():
            return
        chosen = secret_indices(truth.numel(), LOOKED_AT * (1 + truth.numel() // PIECE), truth.device)
        places = torch.unravel_index(chosen, truth.shape) if truth.dim() else ...
        got, reference, truth = (each[places].double().reshape(-1) for each in (got, reference, truth))
        self.rows.append(torch.stack([(got - truth).abs_(), (reference - truth).abs_()]).nan_to_num_(0.0, 0.0))

    def problem(self, scale: float, limit: Tolerance) -> str:
        """In words, what is wrong; empty where nothing is. `scale`: root mean square of the whole output."""
        if not self.rows:
            return ""
        error, own = torch.cat(self.rows, 1).median(1).values.tolist()
        if error <= max(limit.overall * scale, limit.slack * own):
            return ""
        return (
            f"its elements, {scale:.2g} in size, are off by {error:.2g} (median), the reference's by {own:.2g}: lower precision than the task's; "
            "that the reference gets a few of them quite wrong does not excuse it"
        )
