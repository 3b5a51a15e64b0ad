"""Every kind of model that a task may hold, judged for real: a copy of it is right, a copy with one thing changed is wrong.

These are about values, so they are not timed; what is timed stands in test_judge.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from module_task import module_task

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

pytestmark = pytest.mark.rotates

UNTIMED: dict[str, Any] = {"quick": True, "timed": False}


@dataclass(frozen=True)
class Case:
    forward: str
    right: str
    """A piece of the text …"""
    wrong: str
    """… and what makes the candidate wrong in its place."""
    inputs: str = "[torch.randn(8, 16)]"
    arguments: str = "self, x"
    build: str = "pass"
    build_arguments: str = "self"
    init: str = "[]"
    options: dict[str, Any] = field(default_factory=dict)

    def source(self, class_name: str) -> str:
        return f"""
import collections
import torch
import torch.nn as nn
import torch.nn.functional as F

Pair = collections.namedtuple("Pair", "first second")

class {class_name}(nn.Module):
    def __init__({self.build_arguments}):
        super().__init__()
        {self.build}

    def forward({self.arguments}):
        {self.forward}

def get_inputs():
    return {self.inputs}

def get_init_inputs():
    return {self.init}
"""

    @property
    def task(self) -> Task:
        return Task(self.source("Model"), name="a model")

    def candidate(self, wrong: bool = False) -> Candidate:
        source = self.source("ModelNew")
        assert self.right in source
        return candidate_from(source.replace(self.right, self.wrong) if wrong else source)


CASES = {
    "tuple": Case("return x.sum(-1), x.max(-1).indices, x * 2", "x * 2", "x * 2.001"),
    "indices": Case("return x.sum(-1), x.max(-1).indices", "x.max", "x.min"),
    "nested": Case("return [x.tanh(), (x + 1, {'a': [x - 1]})]", "x - 1", "x - 2"),
    "dict": Case("return {'a': x.tanh(), 'b': {'c': x + 1, 2: x}}", "x + 1", "x + 1.01"),
    "named tuple": Case("return Pair(x.tanh(), x.exp())", "x.exp()", "x.exp2()"),
    "value beside": Case("return x.tanh(), x.shape[0] + 1, 'name', None, 0.5", "+ 1", "+ 2"),
    "text beside": Case("return x.tanh(), 'name'", "'name'", "'other'"),
    "in place": Case("x.mul_(2)\n        return x.sum(-1)", "return x.sum(-1)", "return x.sum(-1) + 1"),
    "in place, changed otherwise": Case("y = x.sum(-1); x.mul_(2); return y", "x.mul_(2)", "x.mul_(3)"),
    "in place, left alone": Case("y = x.sum(-1); x.mul_(2); return y", "x.mul_(2)", "pass"),
    "returns its input": Case("return x.relu_()", "x.relu_()", "x.abs_()"),
    "integers": Case("return x * 2 + 1", "+ 1", "+ 2", inputs="[torch.randint(0, 100, (64,))]"),
    "booleans": Case(
        "return x & (y > 50)", "> 50", ">= 50", "[torch.rand(999) > 0.5, torch.randint(0, 100, (999,))]", "self, x, y"
    ),
    "embedding": Case(
        "return self.table(x)",
        "(x)",
        "(x.clamp(max=5))",
        "[torch.randint(0, 50, (32,))]",
        build="self.table = nn.Embedding(50, 8)",
    ),
    "bf16": Case("return F.gelu(x)", "F.gelu", "F.relu", inputs="[torch.randn(64, 32).bfloat16()]"),
    "fp16": Case("return F.silu(x)", "F.silu(x)", "F.silu(x) * 1.02", inputs="[torch.randn(64, 32).half()]"),
    "bf16 parameters": Case(
        "return self.layer(x)",
        "self.layer(x)",
        "self.layer(x) + 0.1",
        inputs="[torch.randn(64, 32).bfloat16()]",
        build="self.layer = nn.Linear(32, 16).bfloat16()",
    ),
    "fp64": Case("return x.sin()", "x.sin()", "x.float().sin().double()", inputs="[torch.randn(64, 32).double()]"),
    "complex": Case("return torch.fft.rfft(x)", "rfft(x)", "rfft(x).conj().resolve_conj()"),
    "complex inputs": Case(
        "return x * y", "x * y", "x + y", "[torch.randn(64, dtype=torch.complex64) for _ in '12']", "self, x, y"
    ),
    "scalar loss": Case("return F.mse_loss(x, y)", "F.mse", "F.l1", "[torch.randn(64, 32), torch.randn(64, 32)]", "self, x, y"),
    "plain arguments": Case(
        "return x * scale if flag else x + count",
        "scale if",
        "scale * 1.01 if",
        "[torch.randn(9), 2.5, 3, True]",
        "self, x, scale, count, flag",
    ),
    "dictionary argument": Case(
        "return batch['x'] - batch['y']", "-", "+", "[{'x': torch.randn(9), 'y': torch.randn(9)}]", "self, batch"
    ),
    "strided inputs": Case("return x @ x.t()", "x.t()", "x.abs().t()", inputs="[torch.randn(32, 16).t()]"),
    "transposed output": Case("return x.exp().t()", "exp", "sinh"),
    "empty output": Case("return x[:0], x + 1", "x + 1", "x + 2"),
    "constants from arguments": Case(
        "return x * self.factors",
        "range(count)",
        "range(1, count + 1)",
        build="self.factors = scale * torch.tensor([float(n) for n in range(count)])",
        build_arguments="self, scale, count",
        init="[1.5, 16]",
    ),
    "buffers": Case(
        "return x * self.scale + self.shift",
        "x * self.scale",
        "x",
        build="self.register_buffer('scale', torch.rand(16)); self.register_buffer('shift', torch.zeros(16))",
    ),
    "zero bias is not zero": Case(
        "return x @ self.weight + self.bias",
        "+ self.bias",
        "",
        build="self.weight = nn.Parameter(torch.randn(16, 4)); self.bias = nn.Parameter(torch.zeros(4))",
    ),
    "batch norm in training": Case(
        "return self.norm(x)",
        "self.norm(x)",
        "F.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias)",
        build="self.norm = nn.BatchNorm1d(16)",
        options={"training": True},
    ),
    "batch norm in evaluation": Case(
        "return self.norm(x)",
        "self.norm(x)",
        "F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True)",
        build="self.norm = nn.BatchNorm1d(16)",
        options={"training": False},
    ),
    "dropout in evaluation": Case(
        "return self.drop(x.exp())", "x.exp()", "x", build="self.drop = nn.Dropout(0.5)", options={"training": False}
    ),
}


def judged(judge: Judge, case: Case, wrong: bool = False) -> Verdict:
    return judge.judge(case.task, case.candidate(wrong), **UNTIMED, **case.options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if place % 3 else []) for place, name in enumerate(CASES)]
)
def test_a_copy_is_right_and_a_changed_copy_is_wrong(judge: Judge, name: str) -> None:
    case = CASES[name]
    right, wrong = judged(judge, case), judged(judge, case, wrong=True)
    assert right.correct, right.diagnosis
    assert right.outcome == "ambiguous", right.diagnosis
    assert not wrong.correct
    assert wrong.outcome in ("incorrect", "rejected"), wrong.diagnosis
    assert wrong.diagnosis


@pytest.mark.rotates
@pytest.mark.parametrize(("output", "same"), [("x.conj()", "torch.conj_physical(x)"), ("x.conj().imag", "0 - x.imag")])
def test_lazy_conjugation_is_resolved_on_both_sides(judge: Judge, output: str, same: str) -> None:
    """torch conjugates and negates by a flag on the view; the bytes below are not the values. Timed calls look at them too."""
    case = Case(f"return {output}", output, "x", inputs="[torch.randn(64, dtype=torch.complex64)]")
    eagerly = candidate_from(case.source("ModelNew").replace(output, same))
    verdict = judge.judge(case.task, eagerly, quick=True)
    assert verdict.correct, verdict.diagnosis
    lazily = judge.judge(case.task, case.candidate(), **UNTIMED)
    assert lazily.correct, lazily.diagnosis
    assert not judge.judge(case.task, case.candidate(wrong=True), **UNTIMED).correct


LINEAR = module_task("self.layer(x)", "torch.randn(4, 16)", init="self.layer = nn.Linear(16, 8)")


def linear_candidate(*changes: tuple[str, str]) -> Candidate:
    source = LINEAR.replace("class Model(", "class ModelNew(")
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return candidate_from(source)


def test_other_names_are_seeded_and_the_verdict_says_so(judge: Judge) -> None:
    verdict = judge.judge(Task(LINEAR), linear_candidate(("self.layer", "self.projection")), **UNTIMED)
    assert verdict.correct, verdict.diagnosis
    assert any("one secret seed" in note and "layer.bias" in note for note in verdict.notes)
    loaded = judge.judge(Task(LINEAR), linear_candidate(), **UNTIMED)
    assert loaded.correct, loaded.diagnosis
    assert any("loaded by name" in note for note in loaded.notes)


def test_an_extra_parameter_is_left_alone(judge: Judge) -> None:
    extra = linear_candidate(("nn.Linear(16, 8)", "nn.Linear(16, 8)\n        self.more = nn.Parameter(torch.zeros(3))"))
    verdict = judge.judge(Task(LINEAR), extra, **UNTIMED)
    assert verdict.correct, verdict.diagnosis
    assert any("loaded by name" in note for note in verdict.notes)


def test_a_missing_parameter_is_wrong_with_a_hint(judge: Judge) -> None:
    verdict = judge.judge(Task(LINEAR), linear_candidate(("nn.Linear(16, 8)", "nn.Linear(16, 8, bias=False)")), **UNTIMED)
    assert verdict.outcome == "incorrect"
    assert "lacks layer.bias" in verdict.diagnosis


def test_another_order_of_drawing_is_wrong_with_a_hint(judge: Judge) -> None:
    other = linear_candidate(
        ("self.layer = nn.Linear(16, 8)", "torch.rand(1); self.other = nn.Linear(16, 8)"), ("self.layer", "self.other")
    )
    verdict = judge.judge(Task(LINEAR), other, **UNTIMED)
    assert verdict.outcome == "incorrect"
    assert "same random numbers in the same order" in verdict.diagnosis


LOWER = ("return self.layer(x)", "return (x.bfloat16() @ self.layer.weight.bfloat16().t()).float() + self.layer.bias")


def test_precision_is_strict_unless_the_user_allows_less(judge: Judge) -> None:
    strict = judge.judge(Task(LINEAR), linear_candidate(LOWER), **UNTIMED)
    assert strict.outcome == "incorrect"
    allowed = judge.judge(Task(LINEAR), linear_candidate(LOWER), precision="bf16", **UNTIMED)
    assert allowed.correct, allowed.diagnosis
    assert any("bf16" in note for note in allowed.notes)
    exact = judge.judge(Task(LINEAR), linear_candidate(), precision="bf16", **UNTIMED)
    assert exact.correct, exact.diagnosis
    wrong = judge.judge(Task(LINEAR), linear_candidate(("self.layer(x)", "self.layer(x) * 1.2")), precision="bf16", **UNTIMED)
    assert wrong.outcome == "incorrect"


def test_lower_precision_is_named_as_such(judge: Judge) -> None:
    verdict = judge.judge(Task(LINEAR), linear_candidate(LOWER), **UNTIMED)
    assert "precision_downgrade" in {violation.name for violation in verdict.violations}
    assert "precision" in verdict.diagnosis
