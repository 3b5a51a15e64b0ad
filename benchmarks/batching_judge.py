"""The trusted judge for an RL experiment: kernels that come together for one task are judged in one go, without isolation, several times as quickly.

Not for `bottega train`, whose rewards are the judge's own: a model that finds out what its reward does not look at will use it. Here the figures come
from tasks that are set aside, and greedy answers to them are judged again with isolation.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.trusted.judge import TrustedJudge
from bottega.train.rollout import RlInputs, open_inputs
from bottega.train.settings import Config

GATHERED = 0.25
"""Seconds that a task's first kernel waits for others."""
REUSED = 8
"""Attempts of the gate that one verdict on the same text serves. A proof draws few texts many times; that each was timed three times in a proof of 24
rounds, and winners again behind it, keeps one lucky timing from deciding."""


class BatchingJudge:
    """A task is with one worker at a time, in which it is open: kernels that come while others of it are judged are the next batch."""

    def __init__(self, trusted: TrustedJudge, keeps: bool = False, served: int = REUSED) -> None:
        """`keeps`: a text that comes again, in a later step perhaps, gets the verdict that it had. For where nothing is timed. `served`: attempts
        of the gate that one verdict serves."""
        self._trusted, self._keeps, self._reused = trusted, keeps, served
        self._pool = ThreadPoolExecutor(trusted.workers)
        self._waiting: dict[str, list[tuple[Candidate, asyncio.Future[Verdict]]]] = {}
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._kept: dict[tuple[str, str], Verdict] = {}
        self._known: dict[tuple[str, str], Verdict] = {}
        self._served: Counter[tuple[str, str]] = Counter()
        self._locks: dict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def judge(self, task: Task, candidate: Candidate, *, quick: bool = True, **options: Any) -> Verdict:
        """For the gate, which asks from more threads than there are workers. What is to be confirmed (`quick` is false) is judged anew."""
        if not quick:
            return self._pool.submit(self._trusted.judge, task, candidate).result()
        key = (task.id, candidate.id)
        with self._locks[key]:  # of those that come together the first one asks
            if self._served[key] % self._reused == 0:
                self._known[key] = self._pool.submit(self._trusted.judge, task, candidate).result()
            self._served[key] += 1
            return self._known[key]

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        if (task.id, candidate.id) in self._kept:
            return self._kept[task.id, candidate.id]
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task.id, []).append((candidate, future))
        if task.id not in self._at_work:
            self._at_work[task.id] = asyncio.ensure_future(self._judge_waiting(task))
        return await future

    async def _judge_waiting(self, task: Task) -> None:
        try:
            await asyncio.sleep(GATHERED)
            while batch := self._waiting.pop(task.id, None):
                await self._judge_batch(task, batch)
        finally:
            del self._at_work[task.id]

    async def _judge_batch(self, task: Task, batch: list[tuple[Candidate, asyncio.Future[Verdict]]]) -> None:
        distinct = {candidate.id: candidate for candidate, _ in batch}
        problems: list[str] = []

        def judged() -> dict[str, Verdict | None]:
            found = self._trusted.judge_many(task, list(distinct.values()), on_problem=problems.append)
            return dict(zip(distinct, found))

        try:
            verdicts = await asyncio.get_running_loop().run_in_executor(self._pool, judged)
        except Exception as error:  # one task may not end the rest
            verdicts, problems = {}, [f"{type(error).__name__}: {error}"]
        for candidate, future in batch:
            verdict = verdicts.get(candidate.id)
            if self._keeps and verdict is not None and verdict.outcome not in (Outcome.INVALID_TASK, Outcome.TIMEOUT):
                self._kept[task.id, candidate.id] = verdict
            if future.done():
                continue
            if verdict is not None:
                future.set_result(verdict)
            else:
                future.set_exception(JudgeError("; ".join(problems) or "the kernel has no verdict"))


@contextmanager
def trusted_inputs(config: Config, timed: bool = True) -> Iterator[RlInputs]:
    """What an RL run works with, and this judge. Untimed, the reward is for what is right by kernels of its own."""
    with open_inputs(config) as given:
        workers = config.rollout.judge_workers if isinstance(config.rollout.judge_workers, int) else 4
        with TrustedJudge(given.judge_device, workers=workers, timeout=config.rollout.timeout, timed=timed) as trusted:
            yield replace(given, judge=BatchingJudge(trusted, keeps=not timed), timed=timed)  # type: ignore[arg-type]
