"""Bootstrap intervals over tasks: how a metric varies with the choice of tasks.

Tasks are drawn, not attempts: attempts at one task are alike, and a benchmark speaks about tasks it has not seen. A speedup is drawn
within the judge's own interval too, since a noisy machine makes every point doubtful at once. Where drawing cannot show any doubt, since
every task came to the same, the exact binomial bound is given instead of a false certainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bottega.judge.statistics import CONFIDENCE as JUDGE_CONFIDENCE

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
JUDGED = NormalDist().inv_cdf(0.5 + JUDGE_CONFIDENCE / 2)
"""So many standard deviations the judge's interval reaches to each side."""
FURTHEST = math.log(100)
"""An end that is further off, or nowhere, says no more than this."""
RESAMPLES = 2000
SEED = 0


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its interval. No figure where there is nothing to take it over, no interval where there is one task."""

    point: float | None
    low: float | None
    high: float | None
    over: int
    """So many tasks it speaks of."""

    def to_json(self) -> dict[str, float | int | None]:
        """Rounded to a millionth: the last places of a sum depend on the machine, and a record must read the same on every one."""
        point, low, high = (None if value is None else round(value, 6) for value in (self.point, self.low, self.high))
        return {"point": point, "low": low, "high": high, "over": self.over}


@dataclass(frozen=True)
class Spread:
    """How far the logarithm of each task's speedup may lie below and above its point: standard deviations, from the judge's intervals."""

    below: Floats
    above: Floats

    @classmethod
    def of(cls, point: Floats, low: Floats, high: Floats) -> Spread:
        with np.errstate(invalid="ignore", divide="ignore"):
            below, above = (np.clip(np.abs(np.log(end / point)), 0.0, FURTHEST) / JUDGED for end in (low, high))
        return cls(np.nan_to_num(below), np.nan_to_num(above))


NOTHING = Estimate(None, None, None, 0)


class Draws:
    """Sets of tasks drawn with replacement. The same for every figure of a group, so that figures may be compared."""

    def __init__(self, tasks: int, resamples: int = RESAMPLES, seed: int = SEED) -> None:
        self.tasks, self.seed = tasks, seed
        self.places = np.random.default_rng(seed).integers(0, max(tasks, 1), size=(resamples, tasks))
        self.counts: Floats = np.zeros((resamples, tasks))
        np.add.at(self.counts, (np.arange(resamples)[:, None], self.places), 1.0)

    def shares(self, values: Floats) -> list[Estimate]:
        """Of each column the mean over tasks, where every value lies between 0 and 1."""
        found = self.means(values)
        return [_open_ended(estimate) if _certain(values[:, place]) else estimate for place, estimate in enumerate(found)]

    def share(self, values: Floats) -> Estimate:
        return self.shares(values[:, None])[0]

    def means(self, values: Floats) -> list[Estimate]:
        """Of each column the mean over tasks."""
        if not self.tasks:
            return [NOTHING] * values.shape[1]
        drawn = self.counts @ values / self.tasks
        points = [float(point) for point in values.mean(axis=0)]
        if self.tasks < 2:
            return [Estimate(point, None, None, self.tasks) for point in points]
        ends = np.quantile(drawn, ENDS, axis=0)
        return [
            Estimate(point, min(float(low), point), max(float(high), point), self.tasks)
            for point, low, high in zip(points, *ends)
        ]

    def mean(self, values: Floats) -> Estimate:
        return self.means(values[:, None])[0]

    def mean_of_known(self, values: Floats, *spreads: Spread) -> Estimate:
        """The mean over those tasks that have a value; the others are NaN."""
        known = np.isfinite(values)
        over = int(known.sum())
        if not over:
            return NOTHING
        filled = np.where(known, values, 0.0)
        divisor = self.counts @ known.astype(float)
        total = self.counts @ filled
        if spreads:
            total = total + (self.counts * np.where(known, self._errors(spreads), 0.0)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = np.where(divisor > 0, total / divisor, np.nan)
        return _estimate(float(filled.sum() / over), drawn, over)

    def geometric_mean(self, speedups: Floats, *spreads: Spread) -> Estimate:
        """Over those tasks that have a speedup; the others are NaN."""
        with np.errstate(divide="ignore"):
            return mapped(self.mean_of_known(np.log(speedups), *spreads), math.exp)

    def median(self, speedups: Floats, *spreads: Spread) -> Estimate:
        """Over those tasks that have a speedup; the others are NaN."""
        over = int(np.isfinite(speedups).sum())
        if not over:
            return NOTHING
        drawn = speedups * np.exp(self._errors(spreads)) if spreads else np.broadcast_to(speedups, self.places.shape)
        return _estimate(float(_medians(speedups[None, :])[0]), _medians(np.take_along_axis(drawn, self.places, axis=1)), over)

    def _errors(self, spreads: Sequence[Spread]) -> Floats:
        """For each draw and task by how much its measured logarithm may be off."""
        random = np.random.default_rng([self.seed, 1])
        found = np.zeros(self.places.shape)
        for spread in spreads:
            drawn = random.standard_normal(self.places.shape)
            found += drawn * np.where(drawn < 0, spread.below, spread.above)
        return found


def mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """The same through a growing function."""
    point, low, high = (None if value is None else function(value) for value in (estimate.point, estimate.low, estimate.high))
    return Estimate(point, low, high, estimate.over)


def certain_reach(tasks: int) -> float:
    """What share of all tasks may still differ from what every one of so many did."""
    return 1.0 if tasks < 1 else float(1 - ENDS[0] ** (1 / tasks))


def _estimate(point: float, drawn: Floats, over: int) -> Estimate:
    """By percentiles; the point itself always lies within."""
    drawn = drawn[np.isfinite(drawn)]
    if over < 2 or not len(drawn):
        return Estimate(point, None, None, over)
    low, high = (float(end) for end in np.quantile(drawn, ENDS))
    return Estimate(point, min(low, point), max(high, point), over)


def _medians(rows: Floats) -> Floats:
    """Of each row the median of its finite values; NaN where it has none."""
    finite = np.isfinite(rows)
    ordered = np.sort(np.where(finite, rows, np.inf), axis=1)
    count = finite.sum(axis=1)
    at = np.arange(len(rows))
    middle: Floats = (ordered[at, np.maximum(count - 1, 0) // 2] + ordered[at, np.minimum(count // 2, rows.shape[1] - 1)]) / 2
    return np.where(count > 0, middle, np.nan)


def _certain(values: Floats) -> bool:
    return len(values) > 0 and float(values.max() - values.min()) < 1e-12


def _open_ended(estimate: Estimate) -> Estimate:
    """So many tasks of another set may still come to nothing, or to everything."""
    point, reach = estimate.point or 0.0, certain_reach(estimate.over)
    return Estimate(point, point * (1 - reach), point + (1 - point) * reach, estimate.over)
