"""One verdict for the same text on the same task."""

from __future__ import annotations

import asyncio

import pytest

from bottega.core.errors import JudgeError
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.known_verdicts import SameText


class Counting:
    def __init__(self, outcome: Outcome = Outcome.SAME, fails: int = 0) -> None:
        self.outcome, self.fails, self.asked = outcome, fails, 0

    async def __call__(self) -> Verdict:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.asked <= self.fails:
            raise JudgeError("lost")
        return Verdict(self.outcome, stages_s={"total": 3.0})


def test_asked_side_by_side_the_judge_judges_once() -> None:
    judge, same = Counting(), SameText()

    async def ask() -> list[Verdict]:
        return await asyncio.gather(*(same.judged("t", "c", judge) for _ in range(5)))

    found = asyncio.run(ask())
    assert judge.asked == 1
    assert {verdict.outcome for verdict in found} == {Outcome.SAME}
    assert sorted(verdict.stages_s["total"] for verdict in found) == [0.0, 0.0, 0.0, 0.0, 3.0]


@pytest.mark.parametrize(("task", "candidate"), [("t", "other"), ("other", "c")])
def test_another_text_or_task_is_judged(task: str, candidate: str) -> None:
    judge, same = Counting(), SameText()

    async def ask() -> None:
        await same.judged("t", "c", judge)
        await same.judged(task, candidate, judge)

    asyncio.run(ask())
    assert judge.asked == 2


def test_a_task_that_could_not_be_judged_is_asked_for_again() -> None:
    judge, same = Counting(Outcome.INVALID_TASK), SameText()

    async def ask() -> None:
        await same.judged("t", "c", judge)
        await same.judged("t", "c", judge)

    asyncio.run(ask())
    assert judge.asked == 2


def test_a_lost_judge_is_no_verdict_for_whoever_waits() -> None:
    judge, same = Counting(fails=1), SameText()

    async def ask() -> list[Verdict | BaseException]:
        return await asyncio.gather(*(same.judged("t", "c", judge) for _ in range(2)), return_exceptions=True)

    first, second = asyncio.run(ask())
    assert isinstance(first, JudgeError) and isinstance(second, Verdict)
