"""GRPO as Kevin uses it: every turn is a sample, and all samples of a task are normalised together.

A = (G - mean) / deviation, over all turns of all episodes of the group, with the deviation of the whole population. The mean holds the
sample itself, which shrinks the gradient by (N - 1) / N. A group whose returns are all alike has no advantage: dividing by a
deviation of nothing would turn rounding into a signal.
"""

from __future__ import annotations

import math

from bottega.train.advantages.group import Advantages, Returns, mean

SMALLEST = 1e-6
"""A deviation below this is none."""


def grpo(returns: Returns) -> Advantages:
    present = [value for episode in returns for value in episode if value is not None and math.isfinite(value)]
    centre = mean(present) if present else 0.0
    deviation = math.sqrt(mean([(value - centre) ** 2 for value in present])) if present else 0.0

    def one(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        return 0.0 if deviation < SMALLEST else (value - centre) / deviation

    return [[one(value) for value in episode] for episode in returns]
