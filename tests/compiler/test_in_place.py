from __future__ import annotations

import pytest
import torch
from executed import executed
from modules_in_cpp import module

from bottega.compiler.backends.cpp import PASSES, write
from bottega.compiler.kernel import Map
from bottega.compiler.planner_passes import PASSES as PLANNER
from bottega.compiler.step_compiler import StepCompiler, lower_task
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

ALL = frozenset(technique.name for technique in (*PLANNER, *PASSES))
INPUTS = "torch.randn(9, 70), torch.randn(9, 70)"


def _written(source: str) -> str:
    lowered = lower_task(Task(source, "module"), with_library=False)
    return write(lowered.plan(ALL), lowered.frame, ALL)


def _agree(source: str) -> tuple[str, list[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]:
    """The candidate, its inputs after the call and what it returned; both are checked against the module."""
    text = _written(source)
    given = executed(source).get_inputs()
    wanted_inputs, inputs = [x.clone() for x in given], [x.clone() for x in given]
    wanted, got = executed(source).Model()(*wanted_inputs), executed(text).ModelNew()(*inputs)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(inputs, wanted_inputs)
    return text, inputs, got


def test_an_optimiser_step_is_one_kernel_that_stores_where_the_inputs_lie() -> None:
    body = "(v.mul_(0.9).add_(g + 0.1 * w), w.sub_(0.5 * v))"
    text, inputs, got = _agree(module(body, f"{INPUTS}, torch.randn(9, 70)", "w, v, g"))
    assert "copy_(" not in text and "torch.empty" not in text and text.count('extern "C"') == 1
    assert [value.data_ptr() for value in got] == [inputs[1].data_ptr(), inputs[0].data_ptr()]


def test_whoever_keeps_a_copy_of_an_input_sees_that_it_has_changed() -> None:
    text = _written(module("x.mul_(2).add_(y)", INPUTS, "x, y"))
    x, y = torch.randn(9, 70), torch.randn(9, 70)
    before = x._version
    executed(text).ModelNew()(x, y)
    assert x._version > before


def test_what_is_overwritten_was_read_before() -> None:
    text, _, _ = _agree(module("(x.copy_(y * 2) * 0 + 1, y.copy_(x + y))", INPUTS, "x, y"))
    assert "copy_(" not in text
    _agree(module("(y.add_(x), x.copy_(x * y))", INPUTS, "x, y"))


def test_a_copy_that_is_returned_stays_apart_from_the_input() -> None:
    _, inputs, got = _agree(module("x.add_(y).clone()", INPUTS, "x, y"))
    assert isinstance(got, torch.Tensor) and got.data_ptr() != inputs[0].data_ptr()


@pytest.mark.parametrize(
    "body", ["x.index_copy_(0, i, y * 2)", "x.index_add_(0, i, y + 1)", "x.scatter_add_(0, i[:, None].expand(9, 70), y * 2)"]
)
def test_some_rows_of_an_input_are_changed_where_it_lies(body: str) -> None:
    """Otherwise all of it is copied, and copied back."""
    text, inputs, got = _agree(module(body, f"{INPUTS}, torch.randperm(9)", "x, y, i"))
    assert "copy_(" not in text.replace("index_copy_(", "") and isinstance(got, torch.Tensor)
    assert got.data_ptr() == inputs[0].data_ptr()
    _agree(module("(x.index_copy_(0, i, x * 2), y.sum())", f"{INPUTS}, torch.randperm(9)", "x, y, i"))
    _, inputs, got = _agree(module("x.index_copy_(0, i, y * 2).clone()", f"{INPUTS}, torch.randperm(9)", "x, y, i"))
    assert isinstance(got, torch.Tensor) and got.data_ptr() != inputs[0].data_ptr()


def test_what_an_input_held_before_is_returned_as_it_was() -> None:
    _agree(module("(x.clone(), x.add_(y))[0]", INPUTS, "x, y"))
    _agree(module("(x * 1, [z := x.clone(), x.copy_(y), y.copy_(z)][1])", INPUTS, "x, y"))


@pytest.mark.parametrize(
    "body",
    ["x.copy_(x.flip(0) + y)", "x.copy_(y - x.mean(1, keepdim=True))", "(x.add_(y), y.copy_(x.cumsum(1)))[1]", "x.t().mul_(2)"],
)
def test_inputs_that_are_read_elsewhere_are_copied_to(body: str) -> None:
    _agree(module(body, INPUTS, "x, y"))


def test_a_recurrence_that_is_written_out_does_not_become_one_expression() -> None:
    chain = "y"
    for step in range(12):
        chain = f"(s{step} := {chain} * 0.5 + x[{step}])"
    source = module(
        f"torch.stack([{chain}, {', '.join(f's{step}' for step in range(12))}])", "torch.randn(12, 40), torch.randn(40)", "x, y"
    )
    plan = lower_task(Task(source, "module"), with_library=False).plan(ALL)
    stores = [len(kernel.stores) for kernel in plan.kernels if isinstance(kernel, Map)]
    assert 1 < max(stores) <= 4


@pytest.mark.rotates
def test_a_long_loop_that_is_written_out_is_planned_once() -> None:
    before = "; ".join(["out = []", *["y = torch.sigmoid(x[0]) * y + 1 - x[1] * 2; out.append(y)"] * 45])
    source = module("torch.stack(out)", "torch.randn(2, 40), torch.randn(40)", "x, y", before=before)
    assert len(StepCompiler().build(Task(source, "module"), "cpp").steps) == 1


@pytest.mark.parametrize(
    "body", ["[z := torch.relu(x) + y, z.clone()]", "[z := torch.relu(x), z.clone(), z.clone()]", "[x.clone(), x + y]"]
)
def test_a_copy_that_is_returned_beside_the_original_has_memory_of_its_own(body: str) -> None:
    _, inputs, got = _agree(module(body, INPUTS, "x, y"))
    places = [value.data_ptr() for value in (*got, *inputs)]
    assert len(set(places)) == len(places)
