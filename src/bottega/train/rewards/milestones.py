"""CUDA Agent's reward: steps instead of a speedup, because a raw speedup has outliers and favours easy kernels.

-1 for what is not right, 1 for what is, 2 for more than 5 % less time than eager, 3 for that against torch.compile as well. Less time
by a share s means a speedup of 1 / (1 - s). A rejected candidate gets -1 too: no cheat is worth more than an honest failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bottega.core.verdict import Verdict
from bottega.train.rewards.verdict_reader import VerdictReader


@dataclass(frozen=True)
class Milestones:
    reading: VerdictReader = field(default_factory=VerdictReader)
    share: float = 0.05

    def __call__(self, verdict: Verdict | None) -> float:
        if verdict is None or not self.reading.earns(verdict):
            return -1.0
        beats = [self.reading.speedup(verdict, baseline) * (1 - self.share) > 1 for baseline in ("eager", "compile")]
        if not beats[0]:
            return 1.0
        return 3.0 if beats[1] else 2.0
