"""Busy time and throughput of the generator, the judge and the trainer in a step.

Wrapped around a client and a judge, so that neither knows of it. The judge's wrapper is also where a lost judge is asked again: one
dead process must cost a verdict at most, never a step of hours.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from bottega.backbone.chat import Message, Sampling
from bottega.backbone.client import Client, Generation
from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, NoJudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.context import Judges
from bottega.judge.verdict_cache import VerdictCache

TRIES = 3
"""How often a judge that was lost is asked in all."""
LOST = "the judge was lost"


class Busy:
    """Seconds in which at least one piece of work was under way, from any thread."""

    def __init__(self, run: Busy | None = None) -> None:
        """`run`: the same of a whole run, which counts all that is counted here."""
        self._run = run
        self.seconds = 0.0
        self.calls = 0
        self._under_way = 0
        self._since = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """With what is under way."""
        with self._lock:
            return self.seconds + (time.monotonic() - self._since if self._under_way else 0.0)

    @contextmanager
    def work(self) -> Iterator[None]:
        with self._lock:
            if not self._under_way:
                self._since = time.monotonic()
            self._under_way += 1
            self.calls += 1
        try:
            with self._run.work() if self._run is not None else nullcontext():
                yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self.seconds += time.monotonic() - self._since


class BusyShares:
    """How busy generator, judge and trainer were since they were last asked: steps may overlap, so that of a step alone no share can be told."""

    def __init__(self) -> None:
        self.generator, self.judge, self.trainer = Busy(), Busy(), Busy()
        self._before: dict[str, float] = {}
        self._asked = time.monotonic()

    def since(self) -> dict[str, float]:
        now = time.monotonic()
        seconds = {name: getattr(self, name).now() for name in ("generator", "judge", "trainer")}
        shares = {name: (value - self._before.get(name, 0.0)) / max(1e-9, now - self._asked) for name, value in seconds.items()}
        self._before, self._asked = seconds, now
        return shares


class Stopwatch:
    """Of one step."""

    def __init__(self, run: BusyShares | None = None) -> None:
        self._run = run or BusyShares()
        self.generator, self.judge, self.trainer = (
            Busy(self._run.generator), Busy(self._run.judge), Busy(self._run.trainer)
        )  # fmt: skip
        self.generated = 0
        """Tokens that were drawn now; those from the log were drawn before."""
        self.lost = 0
        """Verdicts that could not be had."""
        self.stages: dict[str, float] = {}
        self._begun = time.monotonic()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.monotonic() - begun

    def figures(self) -> dict[str, float]:
        return {
            **{f"seconds/{name}": seconds for name, seconds in self.stages.items()},
            "seconds/step": time.monotonic() - self._begun,
            **{f"busy/{name}": share for name, share in self._run.since().items()},
            "tokens_per_second": self.generated / self.generator.seconds if self.generator.seconds else 0.0,
        }


class TimedJudge:
    """Asks again when the judge was lost. An episode then goes on without a verdict, which is no reward; a proof cannot, and raises.

    Episodes of a step that give the same text share its verdict; the gate's proofs are judged afresh every time.
    """

    def __init__(self, judge: Judges, watch: Stopwatch) -> None:
        self._judge, self._watch = judge, watch
        self._same = VerdictCache()

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        with self._watch.judge.work():
            for _ in range(TRIES - 1):
                try:
                    return self._judge.judge(task, candidate, **options)
                except NoJudgeError as error:
                    raise _ending(error) from None
                except JudgeError:
                    continue
            return self._judge.judge(task, candidate, **options)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        if options:
            return await self._asked(task, candidate, **options)
        return await self._same.judged(task.id, candidate.id, lambda: self._asked(task, candidate))

    async def _asked(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        told = ""
        with self._watch.judge.work():
            for _ in range(TRIES):
                try:
                    return await self._judge.judge_async(task, candidate, **options)
                except NoJudgeError as error:
                    raise _ending(error) from None
                except JudgeError as error:
                    told = str(error)
        self._watch.lost += 1
        return Verdict(
            Outcome.INVALID_TASK, diagnosis=f"{LOST}: {told}", notes=(LOST,), task_id=task.id, candidate_id=candidate.id
        )


def _ending(error: NoJudgeError) -> NoJudgeError:
    """The run ends and is resumed: a step without its verdicts would be another step."""
    return NoJudgeError(f"{error}; the same command with --resume goes on")


class TimedClient:
    """Closing it closes nothing: the backbone stays for the next step."""

    def __init__(self, client: Client, watch: Stopwatch) -> None:
        self._client, self._watch = client, watch
        self.name, self.context = client.name, client.context

    def count_tokens(self, text: str) -> int:
        return self._client.count_tokens(text)

    async def generate(self, messages: Sequence[Message], sampling: Sampling) -> Generation:
        with self._watch.generator.work():
            answer = await self._client.generate(messages, sampling)
        self._watch.generated += answer.usage.output_tokens
        return answer

    async def close(self) -> None:
        pass
