"""The same text on the same task has one verdict: whoever asks again gets it, and whoever asks while it is under way waits for it.

A model that is sure of itself answers alike more often than not. Judging such answers again would take most of a run's time, and would tell them
apart by nothing but the noise of timing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from bottega.core.verdict import Outcome, Verdict


@dataclass
class SameText:
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    """By task and candidate. They took no time here, and say so."""
    _under_way: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)

    def keep(self, task: str, candidate: str, verdict: Verdict) -> None:
        """A word that the task could not be judged says nothing of the kernel, and is not kept."""
        if verdict.outcome is not Outcome.INVALID_TASK:
            self.verdicts[task, candidate] = replace(verdict, stages_s={"total": 0.0})

    async def judged(self, task: str, candidate: str, judge: Callable[[], Awaitable[Verdict]]) -> Verdict:
        key = task, candidate
        async with self._under_way.setdefault(key, asyncio.Lock()):
            if key in self.verdicts:
                return self.verdicts[key]
            verdict = await judge()
            self.keep(*key, verdict)
            return verdict
