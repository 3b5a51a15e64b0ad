"""Reward of the summariser: the relative uplift that the admission gate measured for the best card of a summary.

The gate has paired attempts with and without the card, on its own task and on siblings. A card that was not admitted is worth
nothing, however its noise fell; the cap keeps one lucky measurement from outweighing everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bottega.skills.gate import Decision
from bottega.train.rewards.verdict_reader import Bound


def summary_reward(decisions: Iterable[Decision], cap: float = 3.0, bound: Bound = "point") -> float:
    """Of one answer, from the gate's decisions about its cards; 0 for an answer without a card."""
    gains = [
        decision.gain.point if bound == "point" else decision.gain.low for decision in decisions if decision.step == "admit"
    ]
    best = max((gain for gain in gains if math.isfinite(gain)), default=1.0)
    return max(0.0, min(best, cap) - 1.0)
