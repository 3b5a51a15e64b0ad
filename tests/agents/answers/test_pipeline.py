"""The answer pipeline: what each policy does to an answer, and that each repair and lint rule can be switched off by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from network_task import FORGETFUL, SMALL

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import ADMISSION, DEPLOYMENT, REPAIRS, TRAINING, AnswerPolicy, policy_for, read
from bottega.compiler.source.check import RULES
from bottega.core.errors import UsageError

TASK = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def forward(self, energies):
        return torch.tanh(energies).sum((1, 2)) * self.scale
"""
WRITTEN = """import torch
import triton
import triton.language as tl


class ModelNew(Model):
    def forward(self, energies):
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
    t1 = tl.sigmoid(energies) * 2 - 1
    t2 = tl.sum(t1, axis=0)
    t3 = t2 * 2.0
    tl.store(t3_ptr + row, t3)
"""
HERE = AnswerContext(TASK, "triton", "terse")
MISSPELT = ("=energies.device", "=energy.device")
NETWORK = f"```python\n{FORGETFUL}```"


def text(*changes: tuple[str, str]) -> str:
    source = WRITTEN
    for old, new in changes:
        assert old in source
        source = source.replace(old, new, 1)
    return f"```python\n{source}```"


def test_deployment_links_and_lints_what_is_judged() -> None:
    answer = read(text(), HERE, DEPLOYMENT)
    assert answer.findings == () and not answer.fails and "class Model(torch.nn.Module)" in answer.source
    assert [finding.rule for finding in read(text(MISSPELT), HERE, DEPLOYMENT).findings] == ["undefined_name"]


@pytest.mark.parametrize("policy", [TRAINING, ADMISSION])
def test_training_and_the_gate_see_the_models_own_answer(policy: AnswerPolicy) -> None:
    answer = read(text(MISSPELT), HERE, policy)
    assert answer.repairs == answer.findings == () and not answer.fails
    assert "energy.device" in answer.source and "class Model(torch.nn.Module)" in answer.source


def test_without_linking_the_text_stays_as_the_model_wrote_it() -> None:
    assert read(text(), HERE, AnswerPolicy(link=False)).source == WRITTEN
    called = text(("t3 = torch.empty((8,), device=energies.device)", "t3 = cumsum(energies, 1)"))
    assert "def cumsum(" in read(called, HERE, TRAINING).source
    task_only = read(called, HERE, AnswerPolicy(library=False)).source
    assert "def cumsum(" not in task_only and "class Model(" in task_only


@pytest.mark.parametrize(
    ("language", "style", "policy", "repairs"),
    [
        ("triton", "terse", DEPLOYMENT, ("networks",)),
        ("triton", "terse", DEPLOYMENT.without("networks"), ()),
        ("triton", "terse", TRAINING, ()),
        ("triton", "compact", DEPLOYMENT, ()),
        ("cpp", "terse", DEPLOYMENT, ()),
    ],
)
def test_a_repair_is_named_and_can_be_left_out(
    language: str, style: str, policy: AnswerPolicy, repairs: tuple[str, ...]
) -> None:
    answer = read(NETWORK, AnswerContext(SMALL, language, style), policy)
    assert answer.repairs == repairs and answer.findings == ()
    assert ("layer.__class__ = Linear" in answer.source) == ("class Linear(" in answer.source) == bool(repairs)


WRONG = [
    (("        return t3", "        return t4"), "undefined_name"),
    (("        return t3", "        return (t3"), "syntax"),
]


@pytest.mark.parametrize(("change", "rule"), WRONG, ids=[rule for _, rule in WRONG])
def test_a_lint_rule_flags_the_answer_and_can_be_left_out(change: tuple[str, str], rule: str) -> None:
    answer = read(text(change), HERE, DEPLOYMENT)
    assert rule in [finding.rule for finding in answer.findings] and answer.fails
    assert rule not in [finding.rule for finding in read(text(change), HERE, DEPLOYMENT.without(rule)).findings]
    alone = replace(DEPLOYMENT, lint=(rule,))
    assert {finding.rule for finding in read(text(change), HERE, alone).findings} == {rule}


def test_a_text_without_code_is_an_answer_with_a_fault() -> None:
    answer = read("I cannot.", HERE, DEPLOYMENT)
    assert answer.source == "" and answer.fault.startswith("no_code") and answer.fails


def test_a_policy_names_what_there_is() -> None:
    wrong: list[dict[str, Any]] = [{"repairs": ("network",)}, {"lint": ("bounds",)}, {"resamples": -1}]
    for fields in wrong:
        with pytest.raises(UsageError):
            AnswerPolicy(**fields)
    with pytest.raises(UsageError, match="unknown repair or lint rule 'network'"):
        DEPLOYMENT.without("network")
    assert policy_for(0) == TRAINING and policy_for(3) == DEPLOYMENT
    assert DEPLOYMENT.repairs == tuple(REPAIRS) and DEPLOYMENT.lint == RULES
