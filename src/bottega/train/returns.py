"""Returns: what a turn is credited with, from its own reward and those of the turns after it.

The discounted sum credits the steps that led somewhere; the discounted maximum asks only how far it came in the end, and the last turn that was
judged, discounted, what was handed over (CUDA Agent). gamma = 1 and
the sum is what daVinci-kernel and Dr. Kernel take, gamma = 0.4 and the sum is Kevin's choice, gamma = 0 is each turn for itself.
A turn that nobody could judge (None, or no number) has no return, and the turns before it are credited as if it had earned nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Kind = Literal["sum", "max", "last"]


def returns(rewards: Sequence[float | None], kind: Kind = "sum", gamma: float = 1.0) -> list[float | None]:
    """One for each turn, in order."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma lies between 0 and 1, not at {gamma}")
    found: list[float | None] = []
    later: float | None = None
    for reward in reversed(rewards):
        known = reward is not None and math.isfinite(reward)
        discounted = None if later is None else gamma * later
        later = _JOIN[kind](reward, discounted) if known and reward is not None else discounted
        found.append(later if known else None)
    return found[::-1]


def _sum(own: float, later: float | None) -> float:
    return own + (later or 0.0)


def _max(own: float, later: float | None) -> float:
    return own if later is None else max(own, later)


def _last(own: float, later: float | None) -> float:
    return own if later is None else later


_JOIN: dict[str, Callable[[float, float | None], float]] = {"sum": _sum, "max": _max, "last": _last}
