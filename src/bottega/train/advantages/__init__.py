"""Advantages by name: pure functions of a group's returns, without torch."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

from bottega.core.plugins import Plugins
from bottega.train.advantages.group import Advantage

ADVANTAGES = Plugins(
    "advantages",
    "advantage",
    {
        "trloo": "bottega.train.advantages.trloo:trloo",
        "grpo": "bottega.train.advantages.grpo:grpo",
        "rloo": "bottega.train.advantages.rloo:rloo",
        "gae": "bottega.train.advantages.gae:undivided",
    },
)


def advantage_named(name: str, alone: bool = False) -> Advantage:
    """`alone`: a group of one gets its return as advantage, as in the published code, and not 0. GRPO has no such case."""
    function: Any = ADVANTAGES.load(name)
    advantage: Advantage = partial(function, alone=alone) if "alone" in signature(function).parameters else function
    return advantage
