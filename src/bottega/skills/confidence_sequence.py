"""A confidence sequence for the mean of bounded values: an anytime-valid interval, so that sampling may stop at any moment.

Testing by betting: whoever believes that the mean is above m bets on it, value after value. Under the hypothesis the capital has no
upward drift, so reaching 1/alpha has probability alpha at most, however often one looks (Ville). The bet is a mixture over
stakes, which needs no estimate of the variance and is valid for a handful of values, where a t-interval is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STAKES = 1 - (1 - (np.arange(16) + 0.5) / 16) ** 3
"""Shares of the largest stake that cannot lose everything. Most are high: attempts are dear, and a clear gain should show in ten."""
GRID = 601


@dataclass(frozen=True)
class Bounds:
    mean: float
    low: float
    """The mean is above it with probability 1 - alpha, at all times."""
    high: float


def bounds(values: Sequence[float], largest: float, alpha: float = 0.05, every: int = 1) -> Bounds:
    """For values within [-largest, largest], in the order in which they came.

    Values that come in rounds of `every`, one from each of as many sources whose means may differ, are looked at after whole rounds: over a
    round the capital grows by a product of factors whose mean is at most 1 where the sources' mean is, and so does not grow either.
    """
    if largest <= 0 or not 0 < alpha < 1:
        raise ValueError("values need a positive bound, and alpha lies between 0 and 1")
    if not len(values):
        return Bounds(0.0, -largest, largest)
    unit = (np.clip(np.asarray(values, dtype=float), -largest, largest) + largest) / (2 * largest)
    means = np.linspace(0.0, 1.0, GRID)
    # A mean is left out once the capital that was staked against it has ever reached 1/alpha.
    too_low = _peak(unit, means, every) >= 1 / alpha
    too_high = _peak(1 - unit, 1 - means, every) >= 1 / alpha
    # The bound is the last mean of the grid that was ruled out, not the first that was not: what lies between was never tested.
    low = float(means[too_low].max(initial=0.0))
    high = float(means[too_high].min(initial=1.0))
    scale = 2 * largest
    return Bounds(float(unit.mean()) * scale - largest, low * scale - largest, high * scale - largest)


def _peak(unit: np.ndarray, means: np.ndarray, every: int = 1) -> np.ndarray:
    """The highest capital ever reached, after whole rounds, by betting that the true mean is above each of `means`."""
    stakes = STAKES[:, None] / np.maximum(means, 1e-9)[None, :]
    growth = 1 + stakes[None, :, :] * (unit[:, None, None] - means[None, None, :])
    # Beyond e^700 a capital is no number any more, and was enough long before.
    logarithms = np.cumsum(np.log(np.maximum(growth, 1e-12)), axis=0)[every - 1 :: every]
    capital = np.exp(np.minimum(logarithms, 700.0)).mean(axis=1)
    peak: np.ndarray = capital.max(axis=0, initial=0.0)
    return peak
