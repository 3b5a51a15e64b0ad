"""Infinities, bits, signs and places: a draft's are torch's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executed import executed
from module_task import module_task
from triton_process import interpreted
from value_tasks import VALUES

from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

HERE = Path(__file__).parent


DOUBLES = module_task(
    "F.scaled_dot_product_attention(x, x, x, m)",
    "torch.randn(2, 3, 9, 8).double(), torch.cat((torch.zeros(8, 9), torch.ones(1, 9))).double() * torch.finfo(torch.float64).min",
    "x, m",
)
"""Of a query that sees all keys as little."""


@pytest.mark.parametrize("name", [*VALUES, "doubles"])
def test_a_draft_in_cpp_gives_torchs_values(name: str) -> None:
    source = VALUES.get(name, DOUBLES)
    task = executed(source, "task")
    torch.manual_seed(0)
    model, inputs = task.Model(), task.get_inputs()
    for step in DraftCompiler(2).build(Task(source, name), "cpp").steps:
        new = executed(step.candidate.source, "candidate").ModelNew()
        new.load_state_dict(model.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(new(*inputs), model(*inputs), rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("limits", ["wide", pytest.param("tight", marks=pytest.mark.slow)])
def test_every_step_in_triton_gives_torchs_values(limits: str) -> None:
    assert interpreted(HERE / "values_interpreted.py", limits) == []


@pytest.mark.parametrize("name", VALUES)
def test_a_draft_in_cuda_is_written(name: str) -> None:
    assert DraftCompiler(1).build(Task(VALUES[name], name), "cuda").steps
