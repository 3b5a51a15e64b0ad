"""Kevin's reward: 0.3 for being right, and the speedup. A weight of 1, and one of 0, made its authors' rewards stall; 0.3 did not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bottega.core.verdict import Verdict
from bottega.train.rewards.verdict_reader import VerdictReader


@dataclass(frozen=True)
class Kevin:
    reading: VerdictReader = field(default_factory=VerdictReader)
    cap: float = math.inf
    """The paper states none; one lucky measurement then moves a whole group."""
    correct: float = 0.3

    def __call__(self, verdict: Verdict | None) -> float:
        if verdict is None or not self.reading.earns(verdict):
            return 0.0
        return self.correct + min(self.reading.speedup(verdict), self.cap)
