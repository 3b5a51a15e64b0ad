"""The answer pipeline: what each policy does to an answer, and that each repair and lint rule can be switched off by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agents.reading import context

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.lint import LINT
from bottega.agents.answers.pipeline import (
    ADMISSION,
    CLEAN,
    DEPLOYMENT,
    DOUBTFUL,
    FAILS,
    TRAINING,
    AnswerPolicy,
    policy_for,
    read,
)
from bottega.agents.answers.repairs import REPAIRS
from bottega.core.errors import UsageError

TASK = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, energies):
        return torch.tanh(energies).sum((1, 2)) * self.scale
"""
GRAPH = """forward(energies)
energies 8x256x256
t1 = tanh(energies) 8x256x256
t2 = sum(t1, dim=(1, 2)) 8
t3 = mul(t2, 2.0) 8
return t3"""
WRITTEN = """import torch
import triton
import triton.language as tl


class ModelNew(Model):
    def forward(self, energies):
        # t1 = tanh(energies)
        # t2 = sum(t1, dim=(1, 2))
        # t3 = mul(t2, 2.0)
        t3 = torch.empty((8,), device=energies.device)
        columns = energies.shape[1] * energies.shape[2]
        t3_kernel[(8,)](energies, t3, columns, BLOCK=triton.next_power_of_2(columns))
        return t3


@triton.jit
def t3_kernel(energies_ptr, t3_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    energies = tl.load(energies_ptr + row * columns + column, mask=mask, other=0.0)
    # t1 = tanh(energies)
    t1 = tl.sigmoid(energies) * 2 - 1
    # t2 = sum(t1, dim=(1, 2))
    t2 = tl.sum(t1, axis=0)
    # t3 = mul(t2, 2.0)
    t3 = t2 * 2.0
    tl.store(t3_ptr + row, t3)
"""
HERE = context(GRAPH, TASK)
MISSPELT = ("=energies.device", "=energy.device")


def text(*changes: tuple[str, str]) -> str:
    source = WRITTEN
    for old, new in changes:
        assert old in source
        source = source.replace(old, new, 1)
    return f"```python\n{source}```"


def test_deployment_links_repairs_and_lints_what_is_judged() -> None:
    answer = read(text(MISSPELT), HERE, DEPLOYMENT)
    assert answer.repairs == ("spelling", "long_rows") and answer.findings == () and answer.rank == CLEAN
    assert "class Model(torch.nn.Module)" in answer.source and "t3_kernel_in_pieces" in answer.source
    assert "energy.device" not in answer.source


@pytest.mark.parametrize("policy", [TRAINING, ADMISSION])
def test_training_and_the_gate_see_the_models_own_answer(policy: AnswerPolicy) -> None:
    answer = read(text(MISSPELT), HERE, policy)
    assert answer.repairs == answer.findings == () and answer.rank == CLEAN
    assert "energy.device" in answer.source and "class Model(torch.nn.Module)" in answer.source


def test_without_linking_the_text_stays_as_the_model_wrote_it() -> None:
    assert read(text(), HERE, AnswerPolicy(link=False)).source == WRITTEN
    called = text(("t3 = torch.empty((8,), device=energies.device)", "t3 = cumsum(energies, 1)"))
    assert "def cumsum(" in read(called, HERE, TRAINING).source
    task_only = read(called, HERE, AnswerPolicy(library=False)).source
    assert "def cumsum(" not in task_only and "class Model(" in task_only


@pytest.mark.parametrize("name", ["spelling", "long_rows"])
def test_a_repair_can_be_left_out(name: str) -> None:
    answer = read(text(MISSPELT), HERE, DEPLOYMENT.without(name))
    assert answer.repairs == tuple({"spelling", "long_rows"} - {name})
    assert [finding.rule for finding in answer.findings] == (["undefined_name"] if name == "spelling" else [])


WRONG = [
    (("    t3 = t2 * 2.0", "    t3 = t1 * 2.0"), "other_operand", DOUBTFUL),
    (("        # t3 = mul(t2, 2.0)\n", ""), "call_not_in_forward", DOUBTFUL),
    (("    t2 = tl.sum(t1, axis=0)", "    t2 = t1"), "no_reduction", DOUBTFUL),
    (("empty((8,)", "empty((4,)"), "wrong_allocation", DOUBTFUL),
    (("[(8,)]", "[(9,)]"), "out_of_bounds", DOUBTFUL),
    (("energies, t3, columns, BLOCK", "energies, t3, columns, rows=8, BLOCK"), "call_signature", FAILS),
    (("        return t3", "        return t4"), "undefined_name", FAILS),
    (("        return t3", "        return (t3"), "syntax", FAILS),
]


@pytest.mark.parametrize(("change", "rule", "rank"), WRONG, ids=[rule for _, rule, _ in WRONG])
def test_a_lint_rule_flags_the_repaired_answer_and_can_be_left_out(change: tuple[str, str], rule: str, rank: int) -> None:
    answer = read(text(change), HERE, DEPLOYMENT)
    assert rule in [finding.rule for finding in answer.findings] and answer.rank == rank
    assert rule not in [finding.rule for finding in read(text(change), HERE, DEPLOYMENT.without(rule)).findings]
    alone = replace(DEPLOYMENT, lint=(rule,))
    assert {finding.rule for finding in read(text(change), HERE, alone).findings} == {rule}


def test_a_guessed_repair_is_doubtful_though_nothing_is_found() -> None:
    guessed = text(("energies.shape[2]", "energies.shape[3]"))
    answer = read(guessed, HERE, DEPLOYMENT)
    assert "dimensions" in answer.repairs and answer.findings == () and answer.rank == DOUBTFUL
    assert [finding.rule for finding in read(guessed, HERE, DEPLOYMENT.without("dimensions")).findings] == ["no_such_dimension"]


@pytest.mark.parametrize("other", [AnswerContext(TASK, "triton", "compact", GRAPH), AnswerContext(TASK, "cpp", "terse", GRAPH)])
def test_rules_for_call_graphs_leave_other_answers_alone(other: AnswerContext) -> None:
    answer = read(text(MISSPELT, ("    t3 = t2 * 2.0", "    t3 = t1 * 2.0")), other, DEPLOYMENT)
    assert answer.repairs == () and [finding.rule for finding in answer.findings] == ["undefined_name"]


def test_a_text_without_code_is_an_answer_with_a_fault() -> None:
    answer = read("I cannot.", HERE, DEPLOYMENT)
    assert answer.source == "" and answer.fault.startswith("no_code") and answer.rank == FAILS


def test_a_policy_names_what_there_is() -> None:
    wrong: list[dict[str, Any]] = [
        {"repairs": ("speling",)},
        {"lint": ("bounds",)},
        {"resamples": -1},
        {"link": False, "repairs": ("spelling",)},
    ]
    for fields in wrong:
        with pytest.raises(UsageError):
            AnswerPolicy(**fields)
    with pytest.raises(UsageError, match="unknown repair or lint rule 'speling'"):
        DEPLOYMENT.without("speling")
    assert policy_for(0) == TRAINING and policy_for(3) == DEPLOYMENT
    assert DEPLOYMENT.repairs == tuple(REPAIRS) and DEPLOYMENT.lint == tuple(LINT)
