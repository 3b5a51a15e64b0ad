"""The trusting bench with the store behind it: what has a verdict is not judged again, and a verdict is on the disk before it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.store import Bench, Store
from bottega.data.trusted.bench import TrustedBench


class KeepingBench:
    def __init__(self, trusted: TrustedBench, store: Store, bench: Bench, told: Callable[[Verdict, bool], None]) -> None:
        self.trusted, self.store, self.bench, self._told = trusted, store, bench, told

    async def judge_many(
        self, task: Task, candidates: Sequence[Candidate], trouble: Callable[[str], None]
    ) -> list[Verdict | None]:
        """A verdict for each, in order; None where there is none, which is told as trouble."""
        loop = asyncio.get_running_loop()
        found: dict[str, Verdict] = {}
        unknown: list[Candidate] = []
        for candidate in candidates:
            known = self.store.verdict(self.bench, task.id, candidate.id)
            if known is None:
                unknown.append(candidate)
            else:
                found[candidate.id] = known
                self._told(known, True)

        def told(candidate: Candidate, verdict: Verdict) -> None:
            """In a thread of the bench."""
            if verdict.outcome is not Outcome.INVALID_TASK:  # says nothing of the kernel
                self.store.add_verdict(self.bench, task.id, candidate, verdict)
            found[candidate.id] = verdict
            loop.call_soon_threadsafe(self._told, verdict, False)

        def complain(text: str) -> None:
            loop.call_soon_threadsafe(trouble, text)

        if unknown:
            await self.trusted.judge_async(task, unknown, told, complain)
        return [found.get(candidate.id) for candidate in candidates]
