"""Two clocks, one time. The player's clock is precise and forgeable; the referee's is neither. Pure functions.

The referee's clock also counts waking the player. The trusted baseline, run the same way on the same contents, tells how
much that is: outer minus inner, and the candidate is charged outer minus that. Delivering the outputs is timed apart and
counts one way only: what takes longer there than the baseline's was put off, and what is quicker earns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import median

from bottega.core.verdict import Speedup
from bottega.judge.statistics import hodges_lehmann, interval, quickest_quarter, width

GROSS = 0.4
"""A claim that surely leaves out more than this share of what the referee saw is called forged. Smaller lies need no name:
the interval holds the referee's clock in any case."""
LEAST_NS = 1000.0
FLOOR_NS = 10_000.0
"""Two processes differ by microseconds, whatever they run. And hostile code may leave out what an honest player has a GPU do besides
the module: a mark where its clock starts, the word that the call is over, now and then a look at the outputs. Leaving out all of it was seen
to save 8 µs."""
LARGEST_RATIO = 100.0
"""Beyond this the referee's clock does not resolve a ratio."""
FORGED_ABOVE_MS = 0.25
"""Differences below this may be a slow launch or a thread that had to be woken."""


@dataclass(frozen=True)
class Pair:
    """One round: both sides on the same contents. Nanoseconds."""

    baseline_outer: int
    baseline_inner: int
    candidate_outer: int
    candidate_inner: int
    baseline_delivery: int = 0
    candidate_delivery: int = 0


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


def put_off(pairs: Sequence[Pair]) -> tuple[float, float]:
    """What the candidate does after it said that its call had returned, beyond what the baseline does: probably, and surely."""
    centre, low, _ = hodges_lehmann([pair.candidate_delivery - pair.baseline_delivery for pair in pairs])
    return max(centre, 0.0), max(low, 0.0)


def combine(pairs: Sequence[Pair], floor: float) -> Timing:
    """The time that counts is never below what the referee's clock allows."""
    cost = overhead(pairs) - put_off(pairs)[1]  # what was surely put off is no overhead: it is charged
    baseline = [float(max(pair.baseline_inner, 1)) for pair in pairs]
    claimed = [float(max(pair.candidate_inner, 1)) for pair in pairs]
    inner, outer = interval(baseline, claimed, floor + FLOOR_NS / median(baseline)), outer_interval(pairs, floor)
    baseline_ms, claimed_ms = median(baseline) / 1e6, median(claimed) / 1e6
    charged_ms = max(median(pair.candidate_outer for pair in pairs) - cost, LEAST_NS) / 1e6
    forged = ""
    if _gross(pairs, claimed, cost, charged_ms) and charged_ms - claimed_ms > FORGED_ABOVE_MS:
        forged = f"the candidate's process claims {claimed_ms:.4g} ms a call; the referee's clock saw {charged_ms:.4g} ms"
    if forged or outer.high < inner.low:
        return Timing(outer, baseline_ms, charged_ms, forged, "outer")
    point = min(inner.point, outer.point) if outer.point < inner.low else inner.point
    united = Speedup(point, min(inner.low, outer.low), max(inner.high, outer.high))
    return Timing(united, baseline_ms, claimed_ms, "", "inner")


def floor_width(pairs: Sequence[Pair], floor: float) -> float:
    """How wide the interval would be if all rounds had been alike."""
    typical = Pair(*(round(median(values)) for values in zip(*map(astuple, pairs))))
    return width(combine([typical] * len(pairs), floor).speedup)


def outer_interval(pairs: Sequence[Pair], floor: float) -> Speedup:
    """The speedup by the referee's clock alone.

    Waking costs both sides alike, so it cancels in the difference of the two turns of a round; the baseline's own time, which is
    trusted, turns differences back into a ratio. For a call that is shorter than the clock's jitter this interval is honestly
    wide. Work that was put off is charged at the low end where it is probable, and elsewhere where it is sure. The microseconds
    of the floor are added to the difference, where they were saved: as a share of a short call they would not cover it.
    """
    differences = [pair.candidate_outer - pair.baseline_outer for pair in pairs]
    centre, low, high = hodges_lehmann(differences)
    second = quickest_quarter([p.candidate_outer for p in pairs]) - quickest_quarter([p.baseline_outer for p in pairs])
    low, high = min(low, second), max(high, second)
    probably, surely = put_off(pairs)
    centre, low, high = centre + surely, low + surely, high + probably
    base = float(max(median(pair.baseline_inner for pair in pairs), 1))

    def ratio(difference: float) -> float:
        return base / max(base + difference, base / LARGEST_RATIO)

    return Speedup(ratio(centre), ratio(high + FLOOR_NS) * math.exp(-floor), ratio(low - FLOOR_NS) * math.exp(floor))


def _gross(pairs: Sequence[Pair], claimed: Sequence[float], cost: float, charged_ms: float) -> bool:
    """Whether the claim surely leaves out a large part. A busy machine spreads a turn's overhead widely; a lie shifts them all."""
    if len(pairs) < 6:
        return False
    excess = [(pair.candidate_outer - pair.candidate_inner) - (pair.baseline_outer - pair.baseline_inner) for pair in pairs]
    surely = (hodges_lehmann(excess)[1] + put_off(pairs)[1]) / 1e6
    shares = sorted(claim / max(pair.candidate_outer - cost, LEAST_NS) for claim, pair in zip(claimed, pairs))
    return surely > GROSS * charged_ms or shares[int(0.9 * len(shares))] < 1 - GROSS
