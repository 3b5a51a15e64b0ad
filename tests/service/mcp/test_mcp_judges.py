"""The judges behind the tools, at a server: the same kernel is judged once, and again where that is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripted import TASK, served

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.judge.remote_client import TOKEN, TOKEN_FILE
from bottega.service.mcp.judges import JudgePool
from bottega.service.tokens import ANYONE


def test_a_server_judges_the_same_kernel_again_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN, TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    task, candidate = Task(TASK), Candidate("judge 0 x", "cpp")

    async def asked(pool: JudgePool) -> None:
        for again in (False, False, True, True):
            verdict = await pool.verdict(ANYONE, task, candidate, again=again)
            assert verdict.diagnosis == "judge 0 x"

    with served(tmp_path) as running:
        pool = JudgePool(server=running.url)
        asyncio.run(asked(pool))
        pool.close()
        assert running.judge.asked == ["judge 0 x"] * 3
