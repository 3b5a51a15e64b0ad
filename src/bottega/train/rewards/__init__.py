"""Rewards by name: pure functions of verdicts, without torch.

A reward is a class, or a function that makes one: called with a `VerdictReader`, and with `cap` where the settings have one, it gives a `Reward`.
"""

from __future__ import annotations

from inspect import signature

from bottega.core.errors import UsageError
from bottega.core.plugins import Plugins
from bottega.train.rewards.verdict_reader import Reward, VerdictReader

REWARDS = Plugins(
    "rewards",
    "reward",
    {
        "davinci": "bottega.train.rewards.davinci:DaVinci",
        "drkernel": "bottega.train.rewards.davinci:dr_kernel",
        "kevin": "bottega.train.rewards.kevin:Kevin",
        "milestones": "bottega.train.rewards.milestones:Milestones",
    },
)


def takes_cap(name: str) -> bool:
    return "cap" in signature(REWARDS.load(name)).parameters


def reward_named(name: str, reading: VerdictReader | None = None, cap: float | None = None) -> Reward:
    """`cap` overrules the one that comes with the name."""
    make = REWARDS.load(name)
    if cap is not None and not takes_cap(name):
        raise UsageError(f"the reward {name} has no cap; leave it out")
    reward: Reward = make(reading or VerdictReader(), **({} if cap is None else {"cap": cap}))
    return reward
