"""A small benchmark in KernelBench's layout, kernels for it, and a device whose judge is a fake that reads the speed off the kernel's text.

The fake stands in where control flow is tested: lost devices, budgets, order. The judge itself is used in test_bench_command.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from episodes.decay import answer, kernel, verdict_of
from module_task import module_task

from bottega.backbone.client import ChatClient, Client
from bottega.backbone.scripted import Script, ScriptedChat
from bottega.bench import session
from bottega.bench.attempt import BenchAttempt
from bottega.bench.known_verdicts import KnownVerdicts
from bottega.bench.session import BenchFinished, run_session
from bottega.bench.settings import BenchJudgeSettings, BenchSettings
from bottega.bench.shard import PROBE, Shard
from bottega.core.candidate import Candidate
from bottega.core.draft import DraftSource
from bottega.core.errors import JudgeError, TaskError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict

NAMES = ("level1/1_Relu", "level1/2_Double", "level2/1_Negate")
BODIES = {"1_Relu": "torch.relu(x)", "2_Double": "x * 2", "1_Negate": "-x"}
CPP = {"1_Relu": "x[i] > 0 ? x[i] : 0", "2_Double": "x[i] * 2", "1_Negate": "-x[i]"}


def task_text(body: str, size: int = 65536) -> str:
    return module_task(body, f"torch.randn({size})")


def cpp_text(expression: str) -> str:
    return f'''import torch
from torch import nn

from bottega.runtime import cpp

library = cpp(r"""
#include <cstdint>
extern "C" void each(const float* x, float* y, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) y[i] = {expression};
}}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.each(x, y, x.numel())
        return y
'''


def task_folder(place: Path) -> Path:
    folder = place / "tasks"
    for name in NAMES:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(task_text(BODIES[path.stem]))
    return folder


def candidates(place: Path, files: dict[str, str]) -> str:
    folder = place / "theirs"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


class FakeJudge:
    """`dies_at`: from that kernel on, nothing works any more, as on a device that fell off the bus."""

    def __init__(self, dies_at: str = "", unfit: Sequence[str] = (), broken: Sequence[str] = ()) -> None:
        self.dies_at, self.unfit, self.broken = dies_at, unfit, broken
        self.judged: list[tuple[str, str]] = []
        self.options: list[dict[str, Any]] = []
        self.dead = False
        self.workers = self.lanes = 1

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        await asyncio.sleep(0)
        if self.dies_at and self.dies_at in candidate.source:
            self.dead = True
        if self.dead:
            return Verdict(Outcome.INVALID_TASK, diagnosis="CUDA error: no device")
        if "# judge error" in candidate.source:
            raise JudgeError("the referee failed")
        self.judged.append((task.id, candidate.id))
        self.options.append(options)
        return verdict_of(candidate.source)

    def fitness(self, task: Task) -> dict[str, Any]:
        if self.dead:
            raise TaskError("CUDA error: no device")
        if task.name in self.broken:
            raise TaskError(f"{task.name}: the reference raises ValueError")
        problems = [{"name": "constant_output", "detail": "always the same"}] if task.name in self.unfit else []
        return {"fit": not problems, "problems": problems, "facts": {}} if task is not PROBE else {"problems": []}

    def close(self) -> None:
        pass


def judged_by(monkeypatch: Any, *judges: FakeJudge) -> None:
    """One device for each judge."""
    waiting = list(judges)

    def shard(
        device: str, judging: BenchJudgeSettings, workers: int, known: KnownVerdicts | None = None, host: Any = None
    ) -> Shard:
        made = Shard(device, judging, workers, known)
        made.judge.close()
        judge = waiting.pop(0)
        judge.workers, judge.lanes = made.judge.workers, made.judge.lanes
        made.judge = judge
        return made

    monkeypatch.setattr(session, "Shard", shard)


def writing(**options: Any) -> dict[str, Any]:
    """Settings of a run whose kernels a model writes."""
    return {"backbone": "scripted:x", "language": "cpp", **options}


def run(
    folder: Path,
    tasks: Path,
    writing: dict[str, Any] | None = None,
    script: Script | None = None,
    candidates: str = "",
    devices: Sequence[str] = ("cpu",),
    on_event: Callable[[Any], None] = lambda event: None,
    said: list[str] | None = None,
    backbone: ScriptedChat | None = None,
    draft_source: DraftSource | None = None,
    **settings: Any,
) -> BenchFinished:
    """With a `backbone`, that one answers in place of a script."""
    where = {"candidates": candidates} if candidates else {}
    wanted = BenchSettings(**{"at_once": 1, "workers": 1, **(writing or {}), **where, **settings})

    def client(spent: Sequence[BenchAttempt]) -> Client:
        return ChatClient(backbone or ScriptedChat(script if script is not None else {".": answer(kernel(2.0))}))

    log = (said if said is not None else []).append
    given = (wanted, [str(tasks)], folder, devices, client, log, on_event)
    return asyncio.run(run_session(*given, draft_source=draft_source))


def forged(name: str, then: str, now: str) -> Callable[[Path], Any]:
    """A change of a file in a run's folder, which must hold the first text."""

    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert then in text
        (folder / name).write_text(text.replace(then, now))

    return edit
