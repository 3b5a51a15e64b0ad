"""An episode's prompts show what a task calls, where they have a place for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest
from module_task import module_task

from bottega.agents.prompts import Prompts, Style
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.compiler.callgraph import CallGraph
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.episodes import context as context_module
from bottega.episodes.context import EpisodeContext
from bottega.episodes.journal import EpisodeJournal

TASK = Task(module_task("torch.relu(x).sum(-1)", "torch.randn(6, 7)"))


def context_of(style: Style, journal: EpisodeJournal) -> EpisodeContext:
    device = DeviceFacts("cpu", "a processor", "x86_64", 2, 8.0)
    return EpisodeContext(ChatClient(ScriptedChat([])), cast(Any, None), None, Prompts(style), device, journal)


def shown(style: Style, folder: Path) -> CallGraph | None:
    with EpisodeJournal(folder / style) as journal:
        return asyncio.run(context_of(style, journal).callgraph(TASK, "write"))


def test_terse_prompts_show_a_callgraph_and_others_record_none(tmp_path: Path) -> None:
    told = ["forward(x)", "x 6x7", "t1 = relu(x) 6x7", "t2 = sum(t1, -1) 6", "return t2"]
    found = shown("terse", tmp_path)
    assert found is not None and found.text.splitlines() == told
    assert shown("compact", tmp_path) is None and shown("full", tmp_path) is None


def test_rollouts_that_begin_together_have_their_task_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Tracer:
        def trace(self, task: Task) -> CallGraph | None:
            asked.append(task.name)
            time.sleep(0.1)
            return CallGraph((), (), (), "x")

    monkeypatch.setattr(context_module, "shared_tracer", Tracer)
    other = Task(module_task("torch.relu(x).sum(0)", "torch.randn(6, 7)"), "other")

    async def run(context: EpisodeContext) -> None:
        given_up = asyncio.ensure_future(context.callgraph(TASK, "write"))
        waiting = [asyncio.ensure_future(context.callgraph(task, "write")) for task in (TASK, TASK, other)]
        await asyncio.sleep(0.02)
        given_up.cancel()
        assert await asyncio.gather(*waiting) == [CallGraph((), (), (), "x")] * 3

    with EpisodeJournal(tmp_path) as journal:
        asyncio.run(run(context_of("terse", journal)))
    assert sorted(asked) == sorted([TASK.name, "other"])
