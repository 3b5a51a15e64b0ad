"""An episode's prompts show what a task calls, where they have a place for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from module_task import module_task

from bottega.agents.prompts import Prompts, Style
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.compiler.callgraph import CallGraph
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.episodes.context import EpisodeContext
from bottega.episodes.journal import EpisodeJournal

TASK = Task(module_task("torch.relu(x).sum(-1)", "torch.randn(6, 7)"))


def shown(style: Style, folder: Path) -> CallGraph | None:
    with EpisodeJournal(folder / style) as journal:
        client = ChatClient(ScriptedChat([]))
        context = EpisodeContext(
            client, cast(Any, None), None, Prompts(style), DeviceFacts("cpu", "a processor", "x86_64", 2, 8.0), journal
        )
        return asyncio.run(context.callgraph(TASK, "write"))


def test_terse_prompts_show_a_callgraph_and_others_record_none(tmp_path: Path) -> None:
    told = ["forward(x)", "x 6x7", "t1 = relu(x) 6x7", "t2 = sum(t1, -1) 6", "return t2"]
    found = shown("terse", tmp_path)
    assert found is not None and found.text.splitlines() == told
    assert shown("compact", tmp_path) is None and shown("full", tmp_path) is None
