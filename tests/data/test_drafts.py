"""Drafts from the compiler: in a process of its own, which a module may refuse, crash or hang without hurting anyone."""

from __future__ import annotations

import ast
import asyncio
import os
from pathlib import Path

import pytest

from bottega.core.draft import Drafts
from bottega.core.task import Task
from bottega.data import drafts
from bottega.data.drafts import CompilerDrafts
from bottega.data.records import TeacherRecord

MODULE = """import os
import signal
import time

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        BODY


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
"""


def drawn(body: str, timeout: float = 60.0, count: int = 2) -> Drafts:
    task = Task(MODULE.replace("BODY", body), "module")
    return asyncio.run(CompilerDrafts(timeout=timeout).drafts(task, "cpp", count))


def test_the_compiler_s_processes_are_shared_and_end_with_the_last_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Pool:
        def __init__(self, spec: object, processes: int, timeout: float) -> None:
            events.append(f"begun with {processes}")

        async def teach(self, task: Task, language: str) -> TeacherRecord:
            events.append(task.name)
            await asyncio.sleep(0.01)
            return TeacherRecord(task.id, language, "compiler", refused="it is a fake")

        def close(self) -> None:
            events.append("ended")

    monkeypatch.setattr(drafts, "SandboxTeacherPool", Pool)
    source = CompilerDrafts(processes=3)

    async def two_and_one() -> None:
        tasks = [Task(MODULE.replace("BODY", "return x"), name) for name in ("a", "b", "c")]
        await asyncio.gather(*(source.drafts(task, "cpp", 1) for task in tasks[:2]))
        await source.drafts(tasks[2], "cpp", 1)

    asyncio.run(two_and_one())
    assert events == ["begun with 3", "a", "b", "ended", "begun with 3", "c", "ended"]


@pytest.mark.rotates
def test_a_module_that_is_understood_has_kernels_and_no_more_than_asked_for() -> None:
    found = drawn("return torch.softmax(torch.relu(x) * 0.5, dim=-1)")
    assert found.author.startswith("compiler") and not found.refused
    assert len(found.drafts) == 2 and len({draft.source for draft in found.drafts}) == 2
    for draft in found.drafts:
        assert "ModelNew" in {node.name for node in ast.parse(draft.source).body if isinstance(node, ast.ClassDef)}
        assert 'extern "C"' in draft.source and draft.technique and draft.summary


@pytest.mark.slow
def test_what_cannot_be_drawn_is_said_and_nothing_else() -> None:
    refused = drawn("return x + torch.rand_like(x)")
    assert not refused.drafts and refused.refused
    died = drawn("os.kill(os.getpid(), signal.SIGKILL)\n        return x + 1")
    assert not died.drafts and "SIGKILL" in died.refused
    mark = f"sleep 6{os.getpid()}"
    hung = drawn(f"os.system('{mark} &')\n        time.sleep(600)\n        return x + 1", timeout=2.0)
    assert not hung.drafts and "within 2 seconds" in hung.refused
    told = [path.read_bytes().replace(b"\0", b" ").decode() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    running = " ".join(told)
    assert mark not in running  # what it started ends with it
