"""A reward: from one verdict to one number. No kernel at all is `None`, and earns what a wrong one does."""

from __future__ import annotations

from typing import Protocol

from bottega.core.verdict import Verdict


class Reward(Protocol):
    def __call__(self, verdict: Verdict | None) -> float: ...
