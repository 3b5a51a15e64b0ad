"""What the tests of the library share: cards, tasks and verdicts to work with, and children to be run and killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bottega.core.skill import Conditions, Skill, SkillState
from bottega.core.task import Task
from bottega.core.trial import GainInterval, Trial
from bottega.core.verdict import Outcome, Speedup, Verdict

PLAIN = Skill(
    name="tile_rows",
    intent="Read each row once by tiles that stay in the nearest cache.",
    scope="general",
    tags=("tiling", "cache"),
    languages=("cpp",),
    devices=("cpu",),
    conditions=Conditions("fp32 or fp64", "contiguous rows", "none", "none", "a cache of 32 KiB"),
    anchor="Two loops over the same rows.",
    technique="Cut the rows into tiles of 4096 floats and do both loops on one tile before the next is read.",
    example="for (int t = 0; t < n; t += 4096) { first(t); second(t); }",
    effect="Half of the bytes are read.",
    failures=("Rows that are shorter than a tile gain nothing.",),
)


def card(name: str = PLAIN.name, **changes: Any) -> Skill:
    """A sound card; its text says its name, so that a search for the name finds it."""
    return replace(PLAIN, **{"name": name, "anchor": f"Where {name.replace('_', ' ')} is seen.", **changes})


def admitted(name: str, **changes: Any) -> Skill:
    return card(name, state=SkillState.ADMITTED, **changes)


def data(**changes: Any) -> dict[str, Any]:
    """A sound card as foreign data, with some fields replaced."""
    return {**json.loads(json.dumps(PLAIN.to_json())), **changes}


def task(name: str = "softmax") -> Task:
    source = f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.{name}(x, -1)\n"
    return Task(source + "def get_inputs(): return [torch.randn(4)]\ndef get_init_inputs(): return []\n", name=name)


def verdict(speedup: float | None, **changes: Any) -> Verdict:
    """Correct with this speedup; wrong with none."""
    if speedup is None:
        return Verdict(Outcome.INCORRECT, **changes)
    interval = Speedup(speedup, speedup * 0.98, speedup * 1.02)
    return Verdict(Outcome.FASTER if speedup > 1 else Outcome.SLOWER, True, {"eager": interval}, **changes)


def trial(skill: str = PLAIN.name, **changes: Any) -> Trial:
    gain = GainInterval(1.2, 1.1, 1.3)
    facts: dict[str, Any] = {"kind": "gate", "task_id": "t" * 16, "task_name": "softmax", "sibling": False, "baseline": "eager"}
    facts |= {"device": "cpu", "judge_version": "1", "with_skill": (1.2, 1.3), "without_skill": (1.0, 1.1), "gain": gain}
    return Trial(**{"skill": skill, "skill_version": 1, **facts, "decision": "admitted", "reason": "a gain", **changes})


class Child:
    """A function in a forked process. What it says comes back line by line, also when it is killed."""

    def __init__(self, function: Callable[[Callable[[Any], None]], Any]) -> None:
        read, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            signal.alarm(120)  # a child that hangs says nothing more, and its test fails
            code = 1
            try:
                function(lambda value: os.write(write, (json.dumps(value) + "\n").encode()) and None)
                code = 0
            except BaseException as error:
                os.write(write, (json.dumps({"raised": type(error).__name__, "text": str(error)}) + "\n").encode())
                if os.environ.get("CHILD_TRACES"):
                    traceback.print_exc()
            finally:
                os._exit(code)
        os.close(write)
        self._pipe = os.fdopen(read, "rb")

    def next(self) -> Any:
        """Wait for the next thing that it says; None where it says nothing more."""
        line = self._pipe.readline()
        return json.loads(line) if line else None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def said(self) -> list[Any]:
        """Everything else it said, once it is gone."""
        with self._pipe:
            lines = self._pipe.read().split(b"\n")
        _, self.status = os.waitpid(self.pid, 0)
        return [json.loads(line) for line in lines[:-1]]


def in_children(*functions: Callable[[Callable[[Any], None]], Any]) -> list[list[Any]]:
    """All at once; what each said."""
    children = [Child(function) for function in functions]
    return [child.said() for child in children]
