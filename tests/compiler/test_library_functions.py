"""A build's step with the kernel library: heavy operators are library functions, by the call graph's own lines; the rest is fused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_tasks import SMALL, task
from triton_process import interpreted

from bottega.compiler import draft_compiler
from bottega.compiler.build_step import Refusal
from bottega.compiler.callgraph_recorder import record
from bottega.compiler.library.index import kernel_library
from bottega.compiler.lowering.library_functions import LIBRARY_OPERATORS
from bottega.compiler.planner_passes import LIBRARY_FUNCTIONS
from bottega.compiler.source.check import check
from bottega.compiler.step_compiler import StepCompiler
from bottega.compiler.strip import stripped
from bottega.core.task import Task
from bottega.data import unjudged

HERE = Path(__file__).parent
CALL = re.compile(r"^(t\d+ = \w+\(.*\))(?: [\dx]+| scalar)$", re.MULTILINE)
INTERPRETED = ("linear_tail", "conv_tail", "pools", "scan", "einsum", "heads", "batch_norm", "extremes", "transposed_chain")


def given(name: str) -> Task:
    return next(one for one in SMALL if one.name == name)


def step(name: str) -> str:
    steps = StepCompiler().build(given(name), "triton").steps
    return next(one.candidate.source for one in steps if one.technique == LIBRARY_FUNCTIONS.name)


def test_every_operator_that_is_left_to_the_kernel_library_is_there() -> None:
    assert set(kernel_library().offered()) >= LIBRARY_OPERATORS


def test_one_name_for_the_step_everywhere() -> None:
    assert draft_compiler.SHELVED == unjudged.SHELVED == LIBRARY_FUNCTIONS.name


@pytest.mark.parametrize("language", ["triton", "cpp"])
def test_what_only_the_kernel_library_understands_is_the_librarys_in_every_other_step(language: str) -> None:
    summed = task("summed", "return F.relu(torch.einsum('bij->j', x)) + 1", "torch.randn(2, 3, 8)")
    try:
        steps = StepCompiler().build(summed, language).steps
    except Refusal:
        assert language == "cpp"  # which has no such part
        return
    assert any(one.technique == LIBRARY_FUNCTIONS.name for one in steps) == (language == "triton")
    for one in steps:
        assert check(one.candidate.source) == ()
        torchs = "torch.einsum('bij->j'" in one.candidate.source  # C++ has it taken apart, into a sum
        assert torchs == (language == "triton" and one.technique != LIBRARY_FUNCTIONS.name)


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["linear_tail", "conv_tail", "scan", "group_norm"])
def test_heavy_calls_are_the_call_graphs_own_lines_and_their_parts_come_along(name: str) -> None:
    calls = [
        call
        for call in CALL.findall(record(given(name).source).text)
        if call.split(" = ")[1].split("(")[0] in LIBRARY_OPERATORS
    ]
    whole = step(name)
    short = stripped(whole, given(name).source)
    assert calls and all(call in short for call in calls)
    for call in calls:
        word = call.split(" = ")[1].split("(")[0]
        assert f"def {word}(" in whole and f"def {word}(" not in short


def test_a_kernel_has_a_line_for_every_call_in_the_call_graphs_order_and_its_results_name() -> None:
    short = stripped(step("linear_tail"), given("linear_tail").source)
    body = short[short.index("@triton.jit") : short.index("class ModelNew")]
    names = re.findall(r"^    (t\d+) = (?!tl\.load)", body, re.MULTILINE)
    fused = [call.split(" = ")[0] for call in CALL.findall(record(given("linear_tail").source).text)[1:]]
    assert names == fused and f"def {fused[-1]}_kernel(" in body


@pytest.mark.slow
def test_they_compute_what_the_module_does() -> None:
    found = interpreted(HERE / "triton_interpreted.py", "wide", *INTERPRETED)
    shelved = {
        name: error for name, steps in found.items() for technique, error in steps if technique == LIBRARY_FUNCTIONS.name
    }
    assert set(shelved) >= {"linear_tail", "conv_tail", "pools", "scan", "einsum", "heads", "batch_norm"}
    assert {name: error for name, error in shelved.items() if isinstance(error, str) or not error < 5e-6} == {}
