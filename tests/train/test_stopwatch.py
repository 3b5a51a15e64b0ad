"""What a step's judge is asked: the same text of a step's episodes once, a proof of the gate every time."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, NoJudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.train import stopwatch
from bottega.train.stopwatch import LOST, BusyShares, Stopwatch, TimedJudge

TASK = Task("class Model: ...", "t")


class Counting:
    def __init__(self, lost: bool = False, error: type[JudgeError] = JudgeError) -> None:
        self.lost, self.asked, self.error = lost, 0, error

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        self.asked += 1
        if self.lost:
            raise self.error("gone")
        return Verdict(Outcome.SAME, task_id=task.id, candidate_id=candidate.id)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        await asyncio.sleep(0)
        return self.judge(task, candidate, **options)


def _candidate(source: str = "class ModelNew: ...") -> Candidate:
    return Candidate(source, "cpp", "t", None)


def test_episodes_that_answer_alike_share_a_verdict_and_others_do_not() -> None:
    counting = Counting()
    judge = TimedJudge(counting, Stopwatch())

    async def ask() -> list[Verdict]:
        texts = ("class ModelNew: ...", "class ModelNew: ...", "class ModelNew: pass")
        return await asyncio.gather(*(judge.judge_async(TASK, _candidate(text)) for text in texts))

    found = asyncio.run(ask())
    assert counting.asked == 2
    assert found[0].candidate_id == found[1].candidate_id != found[2].candidate_id


def test_options_and_proofs_are_judged_every_time() -> None:
    counting = Counting()
    judge = TimedJudge(counting, Stopwatch())

    async def ask() -> None:
        await judge.judge_async(TASK, _candidate())
        await judge.judge_async(TASK, _candidate(), quick=False)

    asyncio.run(ask())
    judge.judge(TASK, _candidate())
    judge.judge(TASK, _candidate())
    assert counting.asked == 4


def test_a_judge_that_stays_lost_costs_a_verdict_and_is_not_remembered() -> None:
    counting, watch = Counting(lost=True), Stopwatch()
    judge = TimedJudge(counting, watch)
    verdict = asyncio.run(judge.judge_async(TASK, _candidate()))
    assert verdict.outcome is Outcome.INVALID_TASK and LOST in verdict.notes and watch.lost == 1
    counting.lost = False
    assert asyncio.run(judge.judge_async(TASK, _candidate())).outcome is Outcome.SAME


def test_where_no_judge_is_left_a_step_ends_and_keeps_no_verdict_that_is_none() -> None:
    """It would stand in the step's log, and a resumed run would learn from it."""
    counting, watch = Counting(lost=True, error=NoJudgeError), Stopwatch()
    judge = TimedJudge(counting, watch)
    for ask in (lambda: asyncio.run(judge.judge_async(TASK, _candidate())), lambda: judge.judge(TASK, _candidate())):
        with pytest.raises(NoJudgeError):
            ask()
    assert counting.asked == 2 and watch.lost == 0


def test_busy_shares_count_overlapping_steps_once_and_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps at a time, as with rollouts ahead: the second one is drawn and judged while the first is learned from."""
    clock = [100.0]
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: clock[0])
    shares = BusyShares()
    first, second = Stopwatch(shares), Stopwatch(shares)
    with ExitStack() as drawing:
        drawing.enter_context(first.generator.work())
        clock[0] += 2
        drawing.enter_context(second.generator.work())
        clock[0] += 1
    with first.trainer.work(), second.judge.work():
        clock[0] += 1
        told = first.figures()
        assert (told["busy/generator"], told["busy/judge"], told["busy/trainer"]) == (0.75, 0.25, 0.25)
        clock[0] += 4
    clock[0] += 4
    told = second.figures()
    assert (told["busy/generator"], told["busy/judge"], told["busy/trainer"]) == (0.0, 0.5, 0.5), "since the step before"
    assert (first.generator.seconds, second.generator.seconds, second.judge.seconds) == (3.0, 1.0, 5.0)
