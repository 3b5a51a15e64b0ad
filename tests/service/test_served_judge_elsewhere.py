"""Sessions and MCP tools whose judge is a `bottega serve` elsewhere: real HTTP to a server around a scripted judge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedJudge, served

from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.languages import candidate_from
from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.limits import TokenLimits
from bottega.service.mcp.judges import JudgePool
from bottega.service.tokens import ANYONE
from bottega.tasks.load import load_task

KERNEL = "```python\nclass ModelNew:\n    pass\n```"


@dataclass
class Faster(ScriptedJudge):
    def judge(self, task: Task, candidate: Candidate, *, cancellation: Any, **options: Any) -> Verdict:
        self.asked.append(candidate.source)
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, task_id=task.id, candidate_id=candidate.id)


def test_a_session_and_a_tool_ask_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Faster()
    with served(tmp_path, {"alice": TokenLimits(own_tasks=True)}, judge) as server:
        monkeypatch.setenv("BOTTEGA_TOKEN", server.tokens["alice"])
        settings = EnvironmentSettings(judge=server.url, turns=1, reward="kevin", style="full")
        with SessionFactory(settings) as factory:
            session = factory.writer(factory.task_of({"task": "builtin:star_relu"}))
            assert factory.terms.device.kind == "cpu"
            assert session.submit(KERNEL).reward == pytest.approx(2.3)
        pool = JudgePool(server=server.url)
        assert pool.facts()[0]["device"] == "cpu"
        verdict = asyncio.run(pool.verdict(ANYONE, load_task("builtin:star_relu"), candidate_from("class ModelNew: ...")))
        assert verdict.outcome is Outcome.FASTER
        with pytest.raises(UsageError, match="cuda"):
            asyncio.run(pool.verdict(ANYONE, load_task("builtin:star_relu"), candidate_from("class ModelNew: ..."), "cuda:3"))
        pool.close()
    assert len(judge.asked) == 2
