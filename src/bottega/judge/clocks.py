"""Two clocks, one time. The player's clock is precise and forgeable; the referee's is neither. Pure functions.

The referee's clock also counts waking the player and copying its outputs. The trusted baseline, run the same way on
the same contents, tells how much that is: outer minus inner, and the candidate is charged outer minus that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bottega.core.verdict import Speedup
from bottega.judge.statistics import hodges_lehmann, interval

GROSS = 0.4
"""A claim that surely leaves out more than this share of what the referee saw is called forged. Smaller lies need no name:
the interval holds the referee's clock in any case."""
FORGED_ABOVE_MS = 0.25
"""Differences below this may be a slow launch or a thread that had to be woken."""


@dataclass(frozen=True)
class Pair:
    """One round: both sides on the same contents. Nanoseconds."""

    baseline_outer: int
    baseline_inner: int
    candidate_outer: int
    candidate_inner: int


@dataclass(frozen=True)
class Timing:
    speedup: Speedup
    baseline_ms: float
    candidate_ms: float
    forged: str
    """Empty, or how far the candidate's claim is from what the referee saw."""
    clock: str
    """Which clock the times come from: `inner` when both agree, else `outer`."""


def overhead(pairs: Sequence[Pair]) -> float:
    return median(pair.baseline_outer - pair.baseline_inner for pair in pairs)


def combine(pairs: Sequence[Pair], floor: float) -> Timing:
    """The time that counts is never below what the referee's clock allows."""
    cost = overhead(pairs)
    baseline = [float(pair.baseline_inner) for pair in pairs]
    claimed = [float(max(pair.candidate_inner, 1)) for pair in pairs]
    charged = [max(pair.candidate_outer - cost, 1000.0) for pair in pairs]
    inner, outer = interval(baseline, claimed, floor), interval(baseline, charged, floor)
    baseline_ms, claimed_ms, charged_ms = (median(times) / 1e6 for times in (baseline, claimed, charged))
    # How much of its own overhead a turn of the candidate's has beyond a turn of the baseline's, round by round: a busy
    # machine spreads these widely, a claim that leaves work out shifts them all.
    excess = [(pair.candidate_outer - pair.candidate_inner) - (pair.baseline_outer - pair.baseline_inner) for pair in pairs]
    surely = hodges_lehmann(excess)[1] / 1e6
    believed = sorted(claim / charge for claim, charge in zip(claimed, charged))[int(0.9 * len(pairs))]
    gross = surely > GROSS * charged_ms or believed < 1 - GROSS
    forged = ""
    if len(pairs) >= 6 and gross and charged_ms - claimed_ms > FORGED_ABOVE_MS:
        forged = f"the candidate's process claims {claimed_ms:.4g} ms a call; the referee's clock saw {charged_ms:.4g} ms"
    if forged or outer.high < inner.low:
        return Timing(outer, baseline_ms, charged_ms, forged, "outer")
    united = Speedup(
        min(inner.point, outer.point) if outer.point < inner.low else inner.point,
        min(inner.low, outer.low),
        max(inner.high, outer.high),
    )
    return Timing(united, baseline_ms, claimed_ms, "", "inner")
