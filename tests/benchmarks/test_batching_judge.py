"""Kernels of one task that come together are judged together, each text once; one without a verdict says why."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from batching_judge import REUSED, BatchingJudge

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict


class Trusted:
    """Stands in for the trusted judge, which needs processes: says what it was asked."""

    workers = 2

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def judge_many(self, task: Task, candidates: list[Candidate], on_problem: Any) -> list[Verdict | None]:
        self.asked.append((task.name, [one.source for one in candidates]))
        if any(one.source == "lost" for one in candidates):
            on_problem("the worker died")
        return [None if one.source == "lost" else Verdict(Outcome.FASTER, candidate_id=one.id) for one in candidates]


def test_one_go_for_each_task_and_each_text_once() -> None:
    trusted = Trusted()
    judge = BatchingJudge(trusted)  # type: ignore[arg-type]
    first, second = Task("value = 1\n", "one"), Task("value = 2\n", "two")

    async def run() -> list[Any]:
        asked = [(first, "a"), (first, "b"), (second, "a"), (first, "a"), (second, "lost")]
        return await asyncio.gather(
            *(judge.judge_async(task, Candidate(text, "triton")) for task, text in asked), return_exceptions=True
        )

    found = asyncio.run(run())
    assert sorted(trusted.asked) == [("one", ["a", "b"]), ("two", ["a", "lost"])]
    assert [getattr(one, "candidate_id", None) for one in found[:4]] == [
        Candidate(text, "triton").id for text in ("a", "b", "a", "a")
    ]
    assert isinstance(found[4], JudgeError)
    with pytest.raises(JudgeError, match="the worker died"):
        raise found[4]


def test_what_comes_while_its_task_is_judged_is_one_more_go() -> None:
    class Slow(Trusted):
        def judge_many(self, task: Task, candidates: list[Candidate], on_problem: Any) -> list[Verdict | None]:
            time.sleep(0.5)
            return super().judge_many(task, candidates, on_problem)

    trusted, task = Slow(), Task("value = 1\n", "one")
    judge = BatchingJudge(trusted)  # type: ignore[arg-type]

    async def asked(text: str, after: float) -> Verdict:
        await asyncio.sleep(after)
        return await judge.judge_async(task, Candidate(text, "triton"))

    async def run() -> list[Verdict]:
        return await asyncio.gather(asked("a", 0), asked("b", 0.4), asked("c", 0.5))

    assert [one.candidate_id for one in asyncio.run(run())] == [Candidate(text, "triton").id for text in "abc"]
    assert trusted.asked == [("one", ["a"]), ("one", ["b", "c"])]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_text_of_an_earlier_step_is_judged_again_only_where_it_is_timed(keeps: bool) -> None:
    trusted, task = Trusted(), Task("value = 1\n", "one")
    judge = BatchingJudge(trusted, keeps)  # type: ignore[arg-type]
    for _ in range(2):
        asyncio.run(judge.judge_async(task, Candidate("a", "triton")))
    assert trusted.asked == [("one", ["a"])] * (1 if keeps else 2)


def test_the_gate_shares_a_verdict_a_few_times_and_confirms_anew() -> None:
    class Counting(Trusted):
        calls = 0

        def judge(self, task: Task, candidate: Candidate) -> Verdict:
            self.calls += 1
            return Verdict(Outcome.FASTER, candidate_id=candidate.id)

    trusted, task = Counting(), Task("value = 1\n", "one")
    judge = BatchingJudge(trusted)  # type: ignore[arg-type]
    for _ in range(2 * REUSED):
        judge.judge(task, Candidate("a", "triton"))
    assert trusted.calls == 2
    judge.judge(task, Candidate("b", "triton"))
    judge.judge(task, Candidate("a", "triton"), quick=False)
    assert trusted.calls == 4


def test_the_gate_asks_from_many_threads_and_no_more_workers_are_started() -> None:
    class Slow(Trusted):
        at_work = most = 0

        def judge(self, task: Task, candidate: Candidate) -> Verdict:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            time.sleep(0.01)
            self.at_work -= 1
            return Verdict(Outcome.FASTER, candidate_id=candidate.id)

    trusted, task = Slow(), Task("value = 1\n", "one")
    judge = BatchingJudge(trusted)  # type: ignore[arg-type]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda text: judge.judge(task, Candidate(text, "triton")), "abcdefgh"))
    assert trusted.most <= trusted.workers
