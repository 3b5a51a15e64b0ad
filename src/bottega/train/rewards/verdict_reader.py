"""A reward goes from one verdict to one number; no kernel at all is `None`, and earns what a wrong one does.

What it may read of a verdict: is it right and honest, how fast, and how much of the work its own kernels did.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Verdict


class Reward(Protocol):
    def __call__(self, verdict: Verdict | None) -> float: ...


Bound = Literal["point", "low"]


@dataclass(frozen=True)
class VerdictReader:
    """How verdicts are read; the same for every reward."""

    baseline: str = "eager"
    bound: Bound = "point"
    """The interval's point, or its lower end: what is not surely faster then earns less."""
    unmeasured: float = 1.0
    """Coverage of a right kernel whose share could not be measured. A short kernel leaves few samples: 0 would punish it for its speed."""

    def earns(self, verdict: Verdict | None) -> bool:
        """Right, honest, and by kernels of its own. Whoever returns the reference gets what a wrong kernel gets: else copying would pay."""
        return verdict is not None and verdict.outcome.accepted and verdict.does_own_work

    def speedup(self, verdict: Verdict, baseline: str | None = None) -> float:
        """0 unless the candidate is right, honest and timed."""
        found = verdict.speedup.get(baseline or self.baseline)
        if not verdict.outcome.accepted or found is None:
            return 0.0
        value = found.point if self.bound == "point" else found.low
        return value if math.isfinite(value) and value > 0 else 0.0

    def coverage(self, verdict: Verdict) -> float:
        share = verdict.coverage.get("share")
        if share is None or not math.isfinite(share):
            return self.unmeasured
        return min(1.0, max(0.0, float(share)))


def judged(turn: Turn) -> bool:
    """Whether a turn has earned anything at all, be it nothing.

    An answer without a kernel failed, and that is known. A kernel that nobody could judge, because the task is at fault or the judge
    was lost, says nothing about its writer: it gets no reward, which is not the same as a reward of 0. Nor does an agent's step
    on its way to a kernel.
    """
    if turn.verdict is None:
        return bool(turn.fault) and turn.is_kernel
    return turn.verdict.outcome is not Outcome.INVALID_TASK
