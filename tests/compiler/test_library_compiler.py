"""One kernel a task: parts and fused tails for chains, exchanged layers for networks, by what the call graph shows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from network_tasks import RESIDUAL
from small_tasks import SMALL, task

from bottega.compiler.build_step import Refusal
from bottega.compiler.library_compiler import LibraryCompiler
from bottega.compiler.planner_passes import LIBRARY_FUNCTIONS
from bottega.compiler.step_compiler import StepCompiler
from bottega.core.task import Task


def given(name: str) -> Task:
    return next(one for one in SMALL if one.name == name)


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["linear_tail", "pools", "extremes"])
def test_a_chain_ends_as_the_plain_build_does(name: str) -> None:
    (step,) = LibraryCompiler().build(given(name), "triton").steps
    whole = StepCompiler().build(given(name), "triton").steps
    assert step.technique == LIBRARY_FUNCTIONS.name
    assert step.candidate.source in {one.candidate.source for one in whole if one.technique == LIBRARY_FUNCTIONS.name}


def test_the_call_graph_decides_what_is_a_network_and_not_the_level() -> None:
    network = Task(RESIDUAL, "residual", "", 1)
    (step,) = LibraryCompiler().build(network, "triton").steps
    assert step.technique != LIBRARY_FUNCTIONS.name and "layer.__class__ = Conv2d" in step.candidate.source
    (short,) = LibraryCompiler().build(replace(given("linear_tail"), level=3), "triton").steps
    assert short.technique == LIBRARY_FUNCTIONS.name


def test_another_language_is_taught_by_the_plain_builder() -> None:
    steps = LibraryCompiler().build(given("linear_tail"), "cpp").steps
    assert [one.candidate.source for one in steps] == [
        one.candidate.source for one in StepCompiler().build(given("linear_tail"), "cpp").steps
    ]


def test_what_is_barred_is_not_taught() -> None:
    (step,) = LibraryCompiler().build(given("linear_tail"), "triton", {LIBRARY_FUNCTIONS.name}).steps
    assert step.technique != LIBRARY_FUNCTIONS.name


def test_what_has_no_kernel_is_refused() -> None:
    source = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x.sort(dim=0)[0]\n\n\n"
    source += "def get_inputs():\n    return [torch.randn(8, 8)]\n\n\ndef get_init_inputs():\n    return []\n"
    with pytest.raises(Refusal):
        LibraryCompiler().build(Task(source, "sort", "", 1), "triton")


@pytest.mark.rotates
@pytest.mark.parametrize("split", ["x.chunk(2, dim=-1)", "x.split(8, dim=-1)", "x.unflatten(-1, (2, 8)).unbind(-2)"])
def test_a_part_that_is_handed_on_is_the_part_that_it_is_called(split: str) -> None:
    """As in a rotary embedding: the first half goes behind the second, and only the second is computed with."""
    given = task(
        "swapped_halves",
        f"x = self.line(x)\none, two = {split}\nreturn x * 0.5 + torch.cat([-two, one], dim=-1)",
        "torch.randn(32, 16)",
        "self.line = nn.Linear(16, 16)",
    )
    source = LibraryCompiler().build(given, "triton").steps[-1].candidate.source
    (first,) = re.findall(r"^ +(?:t\d+_0) = (.*)$", source, re.MULTILINE)
    assert first.endswith((":8]", "[:, 0]"))
