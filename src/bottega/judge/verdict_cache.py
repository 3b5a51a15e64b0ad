"""A cache of verdicts: the same text on the same task is judged once, and a request while that is under way waits for it.

A trained model often gives the same answer again. Judging it again would take most of a run's time, and would add nothing but timing noise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from bottega.core.verdict import Outcome, Verdict


@dataclass
class VerdictCache:
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    """By task and candidate, with a total time of zero."""
    _under_way: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)

    def keep(self, task: str, candidate: str, verdict: Verdict) -> None:
        """`invalid_task` says nothing about the candidate, and is not stored."""
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
