"""Advantages by name: pure functions of a group's returns, without torch."""

from __future__ import annotations

from functools import partial

from bottega.core.errors import UsageError
from bottega.train.advantages.group import Advantage
from bottega.train.advantages.grpo import grpo
from bottega.train.advantages.rloo import rloo
from bottega.train.advantages.trloo import trloo

ADVANTAGES = ("trloo", "grpo", "rloo")


def advantage_named(name: str, alone: bool = False) -> Advantage:
    """`alone`: a group of one gets its return as advantage, as in the published code, and not 0. GRPO has no such case."""
    named: dict[str, Advantage] = {"trloo": partial(trloo, alone=alone), "grpo": grpo, "rloo": partial(rloo, alone=alone)}
    if name not in named:
        raise UsageError(f"no advantage is called {name!r}; use {', '.join(ADVANTAGES)}")
    return named[name]
