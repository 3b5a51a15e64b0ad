"""The two judges with the store behind them: a kernel that has a verdict is not judged again, and a new verdict is stored before it is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, NoJudgeError
from bottega.core.shared_work import SharedWork
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.settings import JudgeStage
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.judge.device_host import LOCAL, DeviceHost, DeviceJudge, maker_of
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.judge.trusted.judge import TrustedJudge


class StoringJudge:
    """Speaks as a judge does, also to an episode."""

    def __init__(
        self,
        judge: DeviceJudge,
        store: JudgedStore,
        judge_setup: JudgeSetup,
        on_verdict: Callable[[Verdict, bool], None] | None = None,
    ) -> None:
        self.judge, self.store, self.judge_setup, self._on_verdict = judge, store, judge_setup, on_verdict
        self._shared = SharedWork()

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        """Raises `JudgeError` where the judge failed; then nothing is kept, and the kernel is judged the next time."""
        key = (task.id, candidate.id)
        known = self.store.verdict(self.judge_setup, *key)
        if known is not None:
            self._report(known, True)
            return known

        async def judged() -> Verdict:
            verdict = await self.judge.judge_async(task, candidate, **options)
            # An invalid task says nothing of the kernel, and a task may be repaired or was unlucky.
            if verdict.outcome is not Outcome.INVALID_TASK:
                self.store.add_verdict(self.judge_setup, task.id, candidate, verdict)
            self._report(verdict, False)
            return verdict

        return await self._shared.once(key, judged)

    async def judge_many(
        self, task: Task, candidates: Sequence[Candidate], trouble: Callable[[str], None]
    ) -> list[Verdict | None]:
        """A verdict for each, in order; None where the judge failed (reported to `trouble`), and after a verdict that the task cannot be judged."""
        found: list[Verdict | None] = []
        for candidate in candidates:
            try:
                found.append(await self.judge_async(task, candidate))
            except JudgeError as error:
                if isinstance(error, NoJudgeError) or "closed" in str(error):
                    raise
                trouble(f"a kernel has no verdict and is left to the next run: {' '.join(str(error).split())[:200]}")
                found.append(None)
                continue
            if found[-1] is not None and found[-1].outcome is Outcome.INVALID_TASK:
                break
        return [*found, *[None] * (len(candidates) - len(found))]

    def _report(self, verdict: Verdict, known: bool) -> None:
        if self._on_verdict is not None:
            self._on_verdict(verdict, known)


class StoringTrustedJudge:
    def __init__(
        self, judge: TrustedJudge, store: JudgedStore, judge_setup: JudgeSetup, on_verdict: Callable[[Verdict, bool], None]
    ) -> None:
        self.judge, self.store, self.judge_setup, self._on_verdict = judge, store, judge_setup, on_verdict

    async def judge_many(
        self, task: Task, candidates: Sequence[Candidate], trouble: Callable[[str], None]
    ) -> list[Verdict | None]:
        """A verdict for each, in order; None where there is none, and `trouble` gets the reason."""
        loop = asyncio.get_running_loop()
        found: dict[str, Verdict] = {}
        for candidate in candidates:
            known = self.store.verdict(self.judge_setup, task.id, candidate.id)
            if known is not None:
                found[candidate.id] = known
                self._on_verdict(known, True)

        def store(candidate: Candidate, verdict: Verdict) -> None:
            """Called in a thread of the judge."""
            if verdict.outcome is not Outcome.INVALID_TASK:  # says nothing of the kernel
                self.store.add_verdict(self.judge_setup, task.id, candidate, verdict)
            found[candidate.id] = verdict
            loop.call_soon_threadsafe(self._on_verdict, verdict, False)

        def complain(text: str) -> None:
            loop.call_soon_threadsafe(trouble, text)

        unknown = [candidate for candidate in candidates if candidate.id not in found]
        if unknown:
            await self.judge.judge_many_async(task, unknown, store, complain)
        return [found.get(candidate.id) for candidate in candidates]


def judge_setup_of(stage: JudgeStage, host: DeviceHost = LOCAL) -> JudgeSetup:
    """Verdicts of one machine, under the same terms, with the same judge."""
    name = maker_of(host.fingerprint(stage.device))
    return JudgeSetup(
        JUDGE_VERSION, f"{stage.device.partition(':')[0]}: {name}; quick; {'+'.join(stage.baselines)}; {stage.precision}"
    )
