"""Rejection sampling (Dr. Kernel): which turns and traces are left out of an update, and why, so that a shrinking batch is visible.

PRS, by profile: a correct candidate whose own kernels do little of the work is dropped at random. Kept with probability clip((coverage - 0.3) / 0.1,
0, 1). Wrong kernels are always kept, they are what others are better than; so are those that do none of the work themselves and earn as little, and a
kernel whose coverage could not be measured. The draw depends on
seed, trace and turn alone, not on what else is in the batch. The published coverage divides by device and host time together and so comes out low;
ours is a share of device time, or of samples in the process on a CPU, and 0.3 is the milder threshold here.

MRS, by mismatch: decoder and trainer compute the same log-probs with other kernels and other rounding. A trace stays when the geometric mean of the
tokens' ratios, trainer over decoder, over all tokens of all its turns, lies within narrow bounds, and no token's ratio is below the veto. Anything
that is no number drops the trace.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bottega.core.trace import Trace
from bottega.train.settings import CoverageSettings, MismatchSettings


@dataclass(frozen=True)
class Dropped:
    rule: str
    """`coverage` or `mismatch`."""
    trace: str
    turn: int | None
    """None: the whole trace."""
    reason: str
    """A short word, the same for all of a kind."""
    value: float
    """What was looked at."""


@dataclass(frozen=True)
class Rejection:
    looked_at: int
    dropped: tuple[Dropped, ...] = ()

    @property
    def share(self) -> float:
        return len(self.dropped) / self.looked_at if self.looked_at else 0.0

    @property
    def traces(self) -> frozenset[str]:
        """Those that were dropped as a whole."""
        return frozenset(each.trace for each in self.dropped if each.turn is None)

    @property
    def turns(self) -> frozenset[tuple[str, int]]:
        return frozenset((each.trace, each.turn) for each in self.dropped if each.turn is not None)

    def drops(self, trace: str, turn: int) -> bool:
        return trace in self.traces or (trace, turn) in self.turns

    def __str__(self) -> str:
        if not self.dropped:
            return f"nothing dropped of {self.looked_at}"
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(e.reason for e in self.dropped).items()))
        return f"{len(self.dropped)} of {self.looked_at} dropped: {reasons}"


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
            if turn.verdict is None or not turn.verdict.outcome.accepted or not turn.verdict.does_own_work:
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


def reject_by_mismatch(
    traces: Iterable[Trace], trained: Mapping[str, Sequence[Sequence[float]]], rule: MismatchSettings
) -> Rejection:
    """`trained`: for each trace, turn by turn, the trainer's log-probs of the drawn tokens."""
    looked_at, dropped = 0, []
    for trace in traces:
        looked_at += 1
        differences: list[float] = []
        for turn, ours in zip(trace.turns, trained[trace.id], strict=True):
            drawn = turn.logprobs or ()
            differences += [own - other for own, other in zip(ours, drawn, strict=True)]
        fault = mismatch_of(differences, rule)
        if fault is not None:
            dropped.append(Dropped("mismatch", trace.id, None, *fault))
    return Rejection(looked_at, tuple(dropped))


def mismatch_of(differences: Sequence[float], rule: MismatchSettings) -> tuple[str, float] | None:
    """Why a trace with these log-ratios is dropped, and the ratio that was the reason; None when it stays."""
    if not differences:
        return None
    if not all(math.isfinite(value) for value in differences):
        return "no number", math.nan
    least = math.exp(max(-700.0, min(differences)))
    if least < rule.veto:
        return "veto", least
    ratio = math.exp(min(700.0, math.fsum(differences) / len(differences)))
    if not rule.low <= ratio <= rule.high:
        return "geometric mean", ratio
    return None
