"""Each way in which a task cannot be judged fairly is found on a task that has it, and a healthy task is fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from module_task import module_task

from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.judge.task_shortcuts import _size
from bottega.sandbox.control import ProcessControl

SOURCE = module_task(
    "FORWARD", "torch.rand(512, 256), torch.rand(512, 256)", "x, y", init="self.weight = nn.Parameter(torch.randn(256, 256))"
)

HEALTHY = Task(SOURCE.replace("FORWARD", "torch.tanh(x @ self.weight + y)"), name="weighed")
UNFIT = {
    "constant_output": "torch.softmax((x @ self.weight + y).sum(0, keepdim=True), dim=0)",
    "near_zero_output": "(x @ self.weight + y) * 1e-7",
    "averaged_output": "(x @ self.weight.abs() + 3 * y + 100).mean()",
    "identity": "torch.relu(x) + 0 * (x @ self.weight + y)",
    "ignores_input": "x @ self.weight + 0 * y",
    "ignores_parameter": "x * y.exp() + 0 * self.weight.sum()",
    "launch_bound": "x[0, 0] * y[0, 0]",
}


def problems(judge: Judge, forward: str) -> tuple[bool, dict[str, str]]:
    report = judge.fitness(Task(SOURCE.replace("FORWARD", forward), name="weighed"))
    return report["fit"], {problem["name"]: problem["detail"] for problem in report["problems"]}


@pytest.mark.rotates
@pytest.mark.parametrize("name", UNFIT)
def test_the_problem_is_named(judge: Judge, name: str) -> None:
    fit, found = problems(judge, UNFIT[name])
    assert not fit
    assert name in found, found
    assert found[name]
    assert "\n" not in found[name]


def test_the_detail_says_which_input_and_which_parameter(judge: Judge) -> None:
    assert "input 1" in problems(judge, UNFIT["ignores_input"])[1]["ignores_input"]
    assert "weight" in problems(judge, UNFIT["ignores_parameter"])[1]["ignores_parameter"]


@pytest.mark.parametrize("forward", ["torch.tanh(x @ self.weight + y)", "((x @ self.weight + y).argmax(-1), x * y)"])
def test_a_healthy_task_is_fit(judge: Judge, forward: str) -> None:
    fit, found = problems(judge, forward)
    assert fit, found
    assert found == {}


@pytest.mark.parametrize(("turn_ms", "repeated_ms", "named"), [(0.05, 9.0, True), (7.0, 0.01, True), (7.0, 0.3, False)])
def test_a_call_that_a_busy_machine_made_long_does_not_hide_a_short_call(
    turn_ms: float, repeated_ms: float, named: bool
) -> None:
    examiner: Any = SimpleNamespace(reference=SimpleNamespace(device="cpu"), repeated_ms=lambda: repeated_ms)
    found = _size(examiner, {"reference_ms": turn_ms, "quickest_ms": turn_ms, "mutates_inputs": []})
    assert [name for name, _ in found] == ["launch_bound"] * named


def test_a_process_that_is_slow_to_stop_is_waited_for(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, freeze = iter([False] * 3), ProcessControl.freeze
    monkeypatch.setattr(ProcessControl, "freeze", lambda control: freeze(control) and next(busy, True))
    task = Task(SOURCE.replace("FORWARD", "torch.sigmoid(x @ self.weight + y)"))
    judge.fitness(task)
    assert judge._pool.idle[-1].task.id == task.id


def test_facts_come_with_the_report_also_where_the_process_was_lost(judge: Judge) -> None:
    judge.fitness(HEALTHY)
    lost = judge._pool.idle[-1]
    lost.sandboxes[0].kill()
    lost.sandboxes[0].wait(10.0)
    facts = judge.fitness(HEALTHY)["facts"]
    assert lost not in judge._pool.idle
    assert facts["input_bytes"] == 2 * 512 * 256 * 4
    assert facts["output_bytes"] == 512 * 256 * 4
    assert facts["parameter_bytes"] == 256 * 256 * 4
    assert facts["outputs"] == [["float32", [512, 256]]]
    assert facts["reference_ms"] > 0
