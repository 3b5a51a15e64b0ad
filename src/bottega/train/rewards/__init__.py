"""Rewards by name: pure functions of verdicts, without torch."""

from __future__ import annotations

import math

from bottega.core.errors import UsageError
from bottega.train.rewards.davinci import DaVinci
from bottega.train.rewards.kevin import Kevin
from bottega.train.rewards.milestones import Milestones
from bottega.train.rewards.reading import Reading
from bottega.train.rewards.reward import Reward

REWARDS = ("davinci", "drkernel", "kevin", "milestones")


def reward_named(name: str, reading: Reading | None = None, cap: float | None = None) -> Reward:
    """`cap` overrules the one that comes with the name."""
    reading = reading or Reading()
    if name in ("davinci", "drkernel"):
        return DaVinci(reading, cap=cap or (6.0 if name == "davinci" else 3.0))
    if name == "kevin":
        return Kevin(reading, cap=cap or math.inf)
    if name == "milestones":
        return Milestones(reading)
    raise UsageError(f"no reward is called {name!r}; use {', '.join(REWARDS)}")
