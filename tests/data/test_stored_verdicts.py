"""Verdicts that are kept: a kernel without one is left to the next run, and where no judge is left all are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, NoJudgeError
from bottega.core.task import Task
from bottega.data.stored_verdicts import StoringJudge


def test_where_no_judge_is_left_no_other_kernel_is_tried() -> None:
    """Each would wait for two minutes, and be told to be left to the next run."""
    asked: list[str] = []

    def failing(error: JudgeError) -> StoringJudge:
        async def judge_async(task: Task, candidate: Candidate, **options: Any) -> Any:
            asked.append(candidate.source)
            raise error

        store: Any = SimpleNamespace(verdict=lambda *given: None)
        judge: Any = SimpleNamespace(judge_async=judge_async)
        setup: Any = None
        return StoringJudge(judge, store, setup)

    kernels, told = [Candidate(text, "cpp") for text in ("one", "two")], list[str]()
    task = Task("class Model: ...")
    with pytest.raises(NoJudgeError):
        asyncio.run(failing(NoJudgeError("gone")).judge_many(task, kernels, told.append))
    assert asked == ["one"] and not told
    assert asyncio.run(failing(JudgeError("once")).judge_many(task, kernels, told.append)) == [None, None] and len(told) == 2
