"""A task that cannot be judged is called invalid, in one line that says what is wrong with it or what to do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bottega.core.errors import TaskError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

pytestmark = pytest.mark.rotates

GOOD = """
import ctypes
import os
import sys
import time
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""
CANDIDATE = candidate_from(GOOD.replace("class Model(", "class ModelNew("))
FORWARD = "return x + 1"
INPUTS = "return [torch.randn(8, 16)]"


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


BAD: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["empty"]),
    "does not parse": (GOOD + "def (\n", ["line 22", "does not parse"]),
    "null bytes": (GOOD + "'\0'", ["does not parse"]),
    "lacks a name": (changed("def get_inputs", "def inputs"), ["defines no get_inputs", "get_inputs() and get_init_inputs()"]),
    "raises at import": (changed("class Model", "1 / 0\nclass Model"), ["cannot be imported", "ZeroDivisionError"]),
    "missing module": (changed("import time", "import no_such_module_at_all"), ["cannot be imported", "no_such_module_at_all"]),
    "exits at import": (changed("class Model", "sys.exit(3)\nclass Model"), ["cannot be imported", "SystemExit"]),
    "leaves at import": (changed("class Model", "os._exit(3)\nclass Model"), ["ends its process", "3"]),
    "dies at import": (changed("class Model", "os.abort()\nclass Model"), ["kills its process", "signal 6"]),
    "raises in get_inputs": (changed(INPUTS, "raise KeyError('which')"), ["get_inputs() raises KeyError", "which"]),
    "raises in get_init_inputs": (changed("return []", "raise ValueError('init')"), ["ValueError: init"]),
    "raises in the constructor": (
        changed("self.calls = 0", "raise ValueError('broken')"),
        ["Model(*get_init_inputs()) raises ValueError"],
    ),
    "wrong arguments": (changed("return []", "return [1, 2]"), ["Model(*get_init_inputs()) raises TypeError"]),
    "raises in forward": (changed(FORWARD, "raise ValueError('in forward')"), ["the reference raises ValueError: in forward"]),
    "exits in forward": (changed(FORWARD, "sys.exit(3)"), ["the reference", "SystemExit"]),
    "dies in forward": (changed(FORWARD, "ctypes.string_at(0)"), ["kills its process"]),
    "is no module": (changed("nn.Module", "object"), ["Model is not a torch.nn.Module"]),
    "returns no tensor": (changed(FORWARD, "return 5"), ["returns no tensor"]),
    "returns nothing": (changed(FORWARD, "return None"), ["returns no tensor"]),
    "returns an object": (changed(FORWARD, "return object()"), ["object"]),
    "takes an object": (changed(INPUTS, "return [object()]"), ["get_inputs()", "object"]),
    "cannot be pickled": (changed("return []", "return [lambda: 1]"), ["get_init_inputs() returns what cannot be sent"]),
    "dropout that never ends": (
        changed(FORWARD, "return torch.nn.functional.dropout(x, 0.5, True)"),
        ["also in evaluation mode"],
    ),
    "random": (changed(FORWARD, "return x + torch.rand_like(x)"), ["differently to the same inputs"]),
    "keeps state": (changed(FORWARD, "self.calls += 1; return x + self.calls"), ["differently to the same inputs"]),
    "wants more than there is": (changed(INPUTS, "return [torch.empty(1 << 44)]"), ["memory", "smaller shapes"]),
    "wants more than there is later": (changed(FORWARD, "return torch.empty(1 << 44)"), ["memory", "smaller shapes"]),
}


def judged(judge: Judge, source: str, **options: Any) -> Verdict:
    return judge.judge(Task(source, origin="folder/mine.py"), CANDIDATE, quick=True, timed=False, **options)


def must_be_invalid(verdict: Verdict, words: list[str]) -> None:
    assert verdict.outcome == "invalid_task", verdict.diagnosis
    assert not verdict.correct
    assert "\n" not in verdict.diagnosis
    assert len(verdict.diagnosis) < 600
    assert verdict.diagnosis.startswith("folder/mine.py: ")
    for word in words:
        assert word in verdict.diagnosis
    assert "Traceback" not in verdict.diagnosis


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_invalid_and_says_why(judge: Judge, name: str) -> None:
    source, words = BAD[name]
    must_be_invalid(judged(judge, source), words)


@pytest.mark.rotates
def test_a_loop_in_forward_ends_with_the_task_s_time(judge: Judge) -> None:
    verdict = judged(judge, changed(FORWARD, "while True: time.sleep(0.01)"), task_timeout=2.0)
    must_be_invalid(verdict, ["longer than the task timeout"])


@pytest.mark.rotates
@pytest.mark.timeout(120)
def test_a_loop_in_get_inputs_ends_with_the_task_s_time(judge: Judge) -> None:
    verdict = judged(judge, changed(INPUTS, "while True: time.sleep(0.01)"), task_timeout=2.0)
    must_be_invalid(verdict, [" s"])


@pytest.mark.rotates
def test_dropout_is_judged_in_evaluation_mode(judge: Judge) -> None:
    source = changed(FORWARD, "return torch.nn.functional.dropout(x, 0.5, self.training) + 1")
    verdict = judged(judge, source)
    assert verdict.correct, verdict.diagnosis
    assert any("judged in evaluation mode" in note for note in verdict.notes)
    asked_for = judged(judge, source, training=False)
    assert asked_for.correct
    assert not any("judged in evaluation mode" in note for note in asked_for.notes)
    must_be_invalid(judged(judge, source, training=True), ["differently to the same inputs"])


def test_a_closure_that_holds_a_submodule_is_judged(judge: Judge) -> None:
    """A copy of such a module would go on using the original's parameters."""
    source = changed(FORWARD, "return self.f(x)").replace(
        "self.calls = 0", "self.fc = torch.nn.Linear(16, 16); self.f = lambda x: torch.tanh(self.fc(x))"
    )
    task = Task(source, origin="folder/mine.py")
    same = candidate_from(source.replace("class Model(", "class ModelNew("))
    wrong = candidate_from(source.replace("class Model(", "class ModelNew(").replace("torch.tanh", "torch.sin"))
    verdict = judge.judge(task, same, quick=True, timed=False)
    assert verdict.correct, verdict.diagnosis
    assert verdict.error["oracle"] == "fp64"
    assert judge.judge(task, wrong, quick=True, timed=False).outcome == "incorrect"


def test_inputs_of_another_size_in_every_draw_are_judged_or_refused(judge: Judge) -> None:
    """A task may draw its own sizes; the buffers were made for the first of them."""
    source = changed(INPUTS, "return [torch.randn(int(torch.randint(1, 5000, ())), 16)]")
    verdict = judged(judge, source)
    assert verdict.outcome in ("ambiguous", "invalid_task"), verdict.diagnosis
    if verdict.outcome == "invalid_task":
        must_be_invalid(verdict, ["shape"])


@pytest.mark.rotates
def test_the_next_task_is_judged_as_if_nothing_had_happened(judge: Judge) -> None:
    judged(judge, BAD["dies at import"][0])
    judged(judge, BAD["raises in forward"][0])
    verdict = judged(judge, GOOD)
    assert verdict.correct, verdict.diagnosis


def test_fitness_of_a_bad_task_raises_the_same_line(judge: Judge) -> None:
    for name in ("does not parse", "raises in forward", "dies at import"):
        source, words = BAD[name]
        with pytest.raises(TaskError) as raised:
            judge.fitness(Task(source, origin="folder/mine.py"))
        for word in words:
            assert word in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.rotates
def test_a_task_does_not_see_what_is_kept_for_others(judge: Judge) -> None:
    """Its code runs in the controller: builds of other candidates and compiled baselines of other tasks are no business of its."""
    cache = judge._pool.machine().cache
    reaching = f"assert not os.path.exists({cache!r}), 'what is kept between runs'\n    return [torch.randn(8, 16)]"
    task = Task(GOOD.replace("return [torch.randn(8, 16)]", reaching), name="reaching")
    verdict = judge.judge(task, CANDIDATE, timed=False)
    assert verdict.correct, verdict.diagnosis


@pytest.mark.rotates
def test_a_task_that_takes_the_device_when_its_verdict_is_over_keeps_it_from_nobody() -> None:
    holding = GOOD.replace(
        "    return [torch.randn(8, 16)]", "    drawn.append(time.monotonic())\n    return [torch.randn(8, 16)]"
    )
    holding += """
import fcntl
import threading

drawn = []

def hold():
    while len(drawn) < 9 or time.monotonic() < drawn[-1] + 1.5:  # seven to open it, one for each trial
        time.sleep(0.1)
    for name in os.listdir("/proc/self/fd"):
        if os.readlink(f"/proc/self/fd/{name}").endswith(".device"):
            fcntl.flock(int(name), fcntl.LOCK_EX)
            time.sleep(3600)

threading.Thread(target=hold, daemon=True).start()
"""
    with Judge("cpu", quick=True, memory_gb=6, timed=False, timeout=30, task_timeout=30) as one:
        assert one.judge(Task(holding, name="holding"), CANDIDATE).correct
        time.sleep(3)
        verdict = one.judge(Task(GOOD, name="other"), CANDIDATE)
        assert verdict.correct, verdict.diagnosis


@pytest.mark.rotates
def test_what_a_task_says_of_the_device_is_said_of_no_other_task(judge: Judge) -> None:
    forged = 'sys.modules["bottega.judge.device"].DeviceControl.rates = lambda self: {"bytes_per_second": VALUE}\n'
    before = judge.judge(Task(GOOD, "before"), CANDIDATE, quick=True).times_ms["floor"]
    for value in ('"fast"', "12.5", "float('nan')"):
        verdict = judge.judge(
            Task(changed("class Model(", forged.replace("VALUE", value) + "class Model("), "forges"), CANDIDATE
        )
        assert value == "12.5" or (verdict.outcome == "invalid_task" and "what cannot be" in verdict.diagnosis), verdict
        after = judge.judge(Task(f"{GOOD}\nanother = {value!r}\n", "after"), CANDIDATE, quick=True)
        assert after.times_ms["floor"] < 1000 * before
