"""PRS, rejection by profile (Dr. Kernel): a correct candidate whose own kernels do little of the work is dropped at random.

Kept with probability clip((coverage - 0.3) / 0.1, 0, 1). Wrong kernels are always kept, they are what others are better than; so are
those that do none of the work themselves and earn as little, and a kernel whose coverage could not be measured. The draw depends on
seed, trace and turn alone, not on what else is in the batch. The published coverage divides by device and host time together and so
comes out low; ours is a share of device time, or of samples in the process on a CPU, and 0.3 is the milder threshold here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from bottega.core.trace import Trace
from bottega.train.rejection.report import Dropped, Rejection
from bottega.train.rewards.reading import does_own_work
from bottega.train.settings import CoverageSettings


def keep_probability(share: float, rule: CoverageSettings) -> float:
    if rule.width <= 0:
        return 1.0 if share >= rule.threshold else 0.0
    return min(1.0, max(0.0, (share - rule.threshold) / rule.width))


def reject_by_coverage(traces: Iterable[Trace], rule: CoverageSettings, seed: int) -> Rejection:
    """Over the turns of writers' traces."""
    looked_at, dropped = 0, []
    for trace in traces:
        for number, turn in enumerate(trace.turns):
            looked_at += 1
            if turn.verdict is None or not turn.verdict.outcome.accepted or not does_own_work(turn.verdict):
                continue
            share = turn.verdict.coverage.get("share")
            if share is None or not math.isfinite(share):
                continue
            if _uniform(seed, trace.id, number) >= keep_probability(share, rule):
                dropped.append(Dropped("coverage", trace.id, number, "low coverage", float(share)))
    return Rejection(looked_at, tuple(dropped))


def _uniform(seed: int, trace: str, turn: int) -> float:
    """In [0, 1): a probability of 1 always keeps."""
    digest = hashlib.blake2b(f"{seed}/{trace}/{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64
