"""Paired statistics: how much faster, and how sure. Pure functions over plain numbers.

The estimate is the Hodges-Lehmann centre of the paired log-ratios and its interval inverts the Wilcoxon signed-rank
test: no assumption about the shape of timing noise beyond symmetry of the paired differences, and a few preempted
calls do not move it. Noise only ever adds time, and may favour one process for seconds, so a second estimate is taken from
the quickest quarter of each runner, and the interval contains both. A noise floor, found by timing a kernel against itself,
widens every interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

from bottega.core.verdict import Outcome, Speedup

CONFIDENCE = 0.99
NARROW = 2.0
SAME_WITHIN = 0.05
"""An interval that lies within this of one, and holds one, says `same`."""


def hodges_lehmann(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Centre, low and high of the location of a symmetric distribution."""
    n = len(values)
    if n == 0:
        raise ValueError("no samples")
    averages = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    total = len(averages)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    reach = z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    lowest = max(0, math.floor(n * (n + 1) / 4 - reach))
    return median(averages), averages[min(lowest, total - 1)], averages[max(total - 1 - lowest, 0)]


def quickest_quarter(times: Sequence[float]) -> float:
    """The lower quartile: what the code takes when nothing gets in its way."""
    return sorted(times)[(len(times) - 1) // 4]


def interval(baseline: Sequence[float], candidate: Sequence[float], floor: float) -> Speedup:
    """The speedup of paired times with its interval, widened by the noise floor (a relative amount)."""
    pairs = [(b, c) for b, c in zip(baseline, candidate) if b > 0 and c > 0]
    if not pairs:
        return Speedup(0.0, 0.0, math.inf)
    centre, low, high = hodges_lehmann([math.log(b / c) for b, c in pairs])
    second = math.log(quickest_quarter([b for b, _ in pairs]) / quickest_quarter([c for _, c in pairs]))
    low, high = min(low, second), max(high, second)
    if len(pairs) < 6:  # too few for the test to say anything: the range, and a quarter of it more
        low, high = low - 0.25, high + 0.25
    return Speedup(math.exp(centre), math.exp(low - floor), math.exp(high + floor))


def speed_outcome(speedup: Speedup) -> Outcome:
    if speedup.low > 1:
        return Outcome.FASTER
    if speedup.high < 1:
        return Outcome.SLOWER
    if speedup.low >= 1 / (1 + SAME_WITHIN) and speedup.high <= 1 + SAME_WITHIN:
        return Outcome.SAME
    return Outcome.AMBIGUOUS


def width(speedup: Speedup) -> float:
    """Of the interval, on a logarithmic scale."""
    bounded = speedup.low > 0 and math.isfinite(speedup.high)
    return math.log(speedup.high / speedup.low) if bounded else math.inf


def decided(speedup: Speedup) -> bool:
    """Whether more samples would hardly change what is said."""
    return width(speedup) < 0.04 or told_apart(speedup)


def told_apart(speedup: Speedup) -> bool:
    """Whether it is surely faster or slower, and by how much is known roughly."""
    return speed_outcome(speedup) in (Outcome.FASTER, Outcome.SLOWER) and width(speedup) < 0.2


def narrow(speedup: Speedup, least: float) -> bool:
    """Whether most of the interval is the floor, `least`, which more samples would not take away."""
    return width(speedup) < NARROW * least
