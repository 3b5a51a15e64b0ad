"""One search by an agent, with real sandboxes and a judge that reads speeds off the text. As a program it can be killed:
`python -m episodes.agent_search FOLDER BACKBONE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import DEVICE, FakeJudge
from module_task import module_task

from bottega.agents.prompts import Prompts
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Client
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.context import EpisodeContext
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.writing import EpisodeSearch
from bottega.judge import device_lock

TASK = Task(module_task("torch.relu(x) + 1", "torch.randn(4, 8)"), "relu_plus_one")


def kernel(speed: float, added: int = 1) -> str:
    """Runs in the sandbox; the judge reads its speed. It is right where `added` is 1."""
    return f"""# speed {speed}
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0) + {added}
"""


class ProfilingJudge(FakeJudge):
    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        assert task.source == TASK.source, "the judge was given another task"
        verdict = await super().judge_async(task, candidate, **options)
        profile = {"bottleneck": "It waits for memory.", "threads": 1} if options.get("profile") else {}
        return Verdict.from_json({**verdict.to_json(), "profile": profile})


def searched(
    folder: Path,
    client: Client,
    caps: BudgetCaps | None = None,
    library: Any = None,
    skills: tuple[Any, ...] = (),
    **settings: Any,
) -> EpisodeSearch:
    chosen = EpisodeSettings(strategy="agent", **{"samples": 1, "turns": 8, **settings})
    with EpisodeJournal(folder) as journal:
        budget = RunBudget(caps or BudgetCaps())
        context = EpisodeContext(client, ProfilingJudge(), library, Prompts("compact"), DEVICE, journal, budget)
        place = EpisodeSearch(context, TASK.id, TASK, chosen, [skills])

        async def run() -> None:
            try:
                await STRATEGIES.load("agent")(place)
            finally:
                await client.close()

        asyncio.run(run())
    return place


@pytest.fixture
def own_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of an agent share the device with whoever times there; nothing is timed here, so nobody is waited for."""
    folder = tmp_path / "leases"
    folder.mkdir()
    monkeypatch.setattr(device_lock, "lease_folder", lambda: folder)
    return folder


if __name__ == "__main__":
    searched(Path(sys.argv[1]), open_backbone(sys.argv[2]))
