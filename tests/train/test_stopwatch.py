"""What a step's judge is asked: the same text of a step's episodes once, a proof of the gate every time."""

from __future__ import annotations

import asyncio
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.train.stopwatch import LOST, Stopwatch, WatchedJudge

TASK = Task("class Model: ...", "t")


class Counting:
    def __init__(self, lost: bool = False) -> None:
        self.lost, self.asked = lost, 0

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        self.asked += 1
        if self.lost:
            raise JudgeError("gone")
        return Verdict(Outcome.SAME, task_id=task.id, candidate_id=candidate.id)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        await asyncio.sleep(0)
        return self.judge(task, candidate, **options)


def _candidate(source: str = "class ModelNew: ...") -> Candidate:
    return Candidate(source, "cpp", "t", None)


def test_episodes_that_answer_alike_share_a_verdict_and_others_do_not() -> None:
    counting = Counting()
    judge = WatchedJudge(counting, Stopwatch())

    async def ask() -> list[Verdict]:
        texts = ("class ModelNew: ...", "class ModelNew: ...", "class ModelNew: pass")
        return await asyncio.gather(*(judge.judge_async(TASK, _candidate(text)) for text in texts))

    found = asyncio.run(ask())
    assert counting.asked == 2
    assert found[0].candidate_id == found[1].candidate_id != found[2].candidate_id


def test_options_and_proofs_are_judged_every_time() -> None:
    counting = Counting()
    judge = WatchedJudge(counting, Stopwatch())

    async def ask() -> None:
        await judge.judge_async(TASK, _candidate())
        await judge.judge_async(TASK, _candidate(), quick=False)

    asyncio.run(ask())
    judge.judge(TASK, _candidate())
    judge.judge(TASK, _candidate())
    assert counting.asked == 4


def test_a_judge_that_stays_lost_costs_a_verdict_and_is_not_remembered() -> None:
    counting, watch = Counting(lost=True), Stopwatch()
    judge = WatchedJudge(counting, watch)
    verdict = asyncio.run(judge.judge_async(TASK, _candidate()))
    assert verdict.outcome is Outcome.INVALID_TASK and LOST in verdict.notes and watch.lost == 1
    counting.lost = False
    assert asyncio.run(judge.judge_async(TASK, _candidate())).outcome is Outcome.SAME
