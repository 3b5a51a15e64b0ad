"""The examples of docs/extending.md, as they stand there: each is written to a file, found by `module:Name`, and used."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docs.pages import DOCS, Page

from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.core.candidate import Candidate
from bottega.core.plugins import resolve
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.strategies import STRATEGIES
from bottega.judge.checks import check_violations
from bottega.judge.settings import Settings
from bottega.languages import detect_language, registry, use_language
from bottega.tasks.load import load_tasks
from bottega.train.advantages import advantage_named
from bottega.train.rewards import reward_named

FILE = re.compile(r"# (?P<name>my_\w+)\.py\n")
TASK = Task("class Model:\n    relu = 1\n", name="relu")


@pytest.fixture(autouse=True)
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The examples as files of the current folder, where plug-ins are looked for."""
    names = []
    for block in Page(DOCS / "extending.md").blocks("python"):
        if found := FILE.match(block):
            (tmp_path / f"{found['name']}.py").write_text(block, encoding="utf-8")
            names.append(found["name"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield names
    for name in names:
        sys.modules.pop(name, None)
    registry._NAMED.clear()
    registry._loaded.cache_clear()


def verdict(speedup: float) -> Verdict:
    return Verdict(Outcome.FASTER, correct=True, speedup={"eager": Speedup(speedup, speedup, speedup)})


def test_there_is_an_example_of_every_kind_in_about_twenty_lines(written: list[str]) -> None:
    kinds = ("language", "reward", "advantage", "tasks", "backbone", "strategy", "teacher", "check")
    assert written == [f"my_{kind}" for kind in kinds]
    for name in written:
        lines = [line for line in Path(f"{name}.py").read_text().splitlines() if line.strip()]
        assert len(lines) <= 25, name


def test_a_language() -> None:
    helion = use_language("my_language:Helion")
    source = "import helion\n\n\n@helion.kernel()\ndef scaled(x):\n    return x\n"
    assert list(helion.kernel_names(source)) == ["scaled"]
    assert detect_language(source) == helion.name


def test_a_reward() -> None:
    reward = reward_named("my_reward:LogSpeedup")
    assert reward(None) == 0 < reward(verdict(1.0)) < reward(verdict(2.0))
    assert reward_named("my_reward:LogSpeedup", cap=0.1)(verdict(9.0)) == pytest.approx(1.1)


def test_an_advantage() -> None:
    assert advantage_named("my_advantage:median_baseline")([[1.0, None], [2.0], [4.0]]) == [[-1.0, None], [0.0], [2.0]]


def test_a_task_source() -> None:
    loaded = load_tasks(["my_tasks:rows:128,4096"])
    assert [task.name for task in loaded.tasks] == ["rows_128", "rows_4096"]
    assert not loaded.problems
    assert all(task.validate() for task in loaded.tasks)


def test_a_backbone() -> None:
    Path("answer.md").write_text("an answer")
    client = open_backbone("my_backbone:repeats:answer.md")
    assert asyncio.run(client.generate([Message("user", "write a kernel")], Sampling())).text == "an answer"


def test_a_search_strategy() -> None:
    assert asyncio.run(_grown("my_strategy:from_the_best")) == [("s0b0", 0), ("s0b1", 1)]


async def _grown(name: str) -> list[tuple[str, int]]:
    """What the strategy asks for, over a search that writes nothing: names, and how many kernels each sees."""
    search: Any = SimpleNamespace(
        settings=SimpleNamespace(samples=1, turns=2, empty_scheme=True), schemes=[()], best=None, finished=lambda: False
    )
    asked: list[tuple[str, int]] = []

    async def grow(name: str, history: list[Any], scheme: int) -> None:
        asked.append((name, len(history)))
        search.best = object()

    search.grow = grow
    await STRATEGIES.load(name)(search)
    return asked


def test_a_teacher() -> None:
    teacher = resolve("my_teacher:Relu")()
    course = asyncio.run(teacher.teach(TASK, "triton"))
    assert [step.technique for step in course.steps] == ["naive"]


def test_a_judge_check() -> None:
    checks = Settings(checks=("my_check:no_assembly",)).checks
    candidate = Candidate('asm("nop")', "cpp")
    (against,) = check_violations(checks, TASK, candidate, verdict(2.0))
    assert against.name == "no_assembly"
    assert not check_violations(checks, TASK, Candidate("class ModelNew: ...", "torch"), verdict(2.0))
