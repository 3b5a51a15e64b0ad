"""An episode's prompts show what a task calls, where they have a place for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from bottega.agents.prompts import Prompts, Style
from bottega.backbone.client import ChatSpeaker
from bottega.backbone.scripted import ScriptedChat
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.episodes.context import Workshop
from bottega.episodes.journal import Journal

TASK = Task("""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x).sum(-1)
def get_inputs():
    return [torch.randn(6, 7)]
def get_init_inputs():
    return []
""")


def sketch(style: Style, folder: Path) -> str:
    with Journal(folder / style) as journal:
        speaker = ChatSpeaker(ScriptedChat([]))
        workshop = Workshop(
            speaker, cast(Any, None), None, Prompts(style), DeviceFacts("cpu", "a processor", "x86_64", 2, 8.0), journal
        )
        return asyncio.run(workshop.sketch(TASK, "write"))


def test_terse_prompts_show_a_sketch_and_others_draw_none(tmp_path: Path) -> None:
    told = ["forward(x)", "x 6x7", "t1 = relu(x) 6x7", "t2 = sum(t1, -1) 6", "return t2"]
    assert sketch("terse", tmp_path).splitlines() == told
    assert sketch("compact", tmp_path) == sketch("full", tmp_path) == ""
