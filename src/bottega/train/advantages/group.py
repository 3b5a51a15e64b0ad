"""A group: the returns of several episodes of one task, turn by turn, and what an advantage makes of them.

Episodes end early, answers go unjudged: `None` stands for a return that does not exist, and so does a value that is no number. It joins
no mean and gets no advantage, which differs from an advantage of 0 only in the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Returns = Sequence[Sequence[float | None]]
"""returns_G_T: for each episode of the group one for each of its turns; lengths may differ."""
Advantages = list[list[float | None]]
"""The same shape."""
Advantage = Callable[[Returns], Advantages]


def known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def leave_one_out(values: Sequence[float | None], alone: bool = False) -> list[float | None]:
    """Each value less the mean of the others, which is N / (N - 1) times (value - mean of all).

    A value without others has nothing to be compared with: 0, or the value itself where `alone` asks for that.
    """
    present = [value for value in values if value is not None and math.isfinite(value)]
    count = len(present)
    if count < 2:
        return [None if not known(value) else (value if alone else 0.0) for value in values]
    centre = mean(present)
    return [(value - centre) * count / (count - 1) if value is not None and known(value) else None for value in values]
