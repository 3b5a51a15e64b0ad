"""The reward of daVinci-kernel and Dr. Kernel: right, fast up to a cap, and fast by its own kernels.

r = 0.5 C + 0.5 min(speedup, U) + 0.5 coverage C, with C = 1 for what is right and honest. U is 6 in daVinci-kernel and 3 in
Dr. Kernel. Whatever the judge did not accept gets 0, decoys included.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bottega.core.verdict import Verdict
from bottega.train.rewards.verdict_reader import VerdictReader


@dataclass(frozen=True)
class DaVinci:
    reading: VerdictReader = field(default_factory=VerdictReader)
    cap: float = 6.0
    correct: float = 0.5
    fast: float = 0.5
    own: float = 0.5
    """Weight of the coverage."""

    def __call__(self, verdict: Verdict | None) -> float:
        if verdict is None or not self.reading.earns(verdict):
            return 0.0
        speedup = min(self.reading.speedup(verdict), self.cap)
        return self.correct + self.fast * speedup + self.own * self.reading.coverage(verdict)


def dr_kernel(reading: VerdictReader, cap: float = 3.0) -> DaVinci:
    return DaVinci(reading, cap)
