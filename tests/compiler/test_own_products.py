"""Products of our own in Triton are written where they do not lose to the library's, or where nothing else of ours would be left."""

from __future__ import annotations

import pytest
from small_tasks import SMALL, task

from bottega.compiler.kernel import FunctionCall, Product
from bottega.compiler.matmul_rule import products_pay
from bottega.compiler.planner_passes import OWN_PASSES
from bottega.compiler.step_compiler import StepCompiler, lower_task
from bottega.core.task import Task


def linear(rows: int, depth: int, columns: int, narrow: str = "") -> Task:
    layer = f"self.fc = nn.Linear({depth}, {columns}){narrow}"
    return task("linear", "return F.gelu(self.fc(x)) * 2", f"torch.randn({rows}, {depth}){narrow}", layer)


def small(name: str) -> Task:
    return next(one for one in SMALL if one.name == name)


def techniques(given: Task, language: str = "triton", **options: bool) -> set[str]:
    return {step.technique for step in StepCompiler(**options).build(given, language).steps}  # type: ignore[arg-type]


def test_a_large_product_of_fp32_is_ours() -> None:
    assert "own_product" in techniques(linear(128, 144, 160))


@pytest.mark.rotates
@pytest.mark.parametrize(
    "given",
    [linear(127, 144, 160), linear(128, 112, 160), linear(128, 144, 112), linear(128, 136, 160), linear(128, 144, 136),
     linear(128, 144, 160, ".half()"), linear(128, 144, 160, ".double()")],
    ids=["rows", "depth", "columns", "odd depth", "odd columns", "half", "double"],
)  # fmt: skip
def test_another_one_is_the_librarys_unless_asked_for(given: Task) -> None:
    found = techniques(given)
    assert "fuse_elementwise" in found and "own_product" not in found
    plan = lower_task(given).plan(OWN_PASSES)
    assert any(isinstance(kernel, Product) for kernel in plan.kernels) and not products_pay(plan)


def test_one_product_that_loses_leaves_all_to_the_library() -> None:
    layers = "self.a = nn.Linear(128, 256)\nself.b = nn.Linear(256, 16)"
    given = task("two", "return torch.sigmoid(self.b(F.relu(self.a(x))))", "torch.randn(256, 128)", layers)
    assert "own_product" not in techniques(given)


def test_whoever_checks_them_gets_them_all() -> None:
    assert "own_product" in techniques(linear(16, 16, 16), every_product=True)


def test_other_languages_are_not_held_to_it() -> None:
    assert "own_product" in techniques(linear(16, 16, 16), "cpp")


def test_a_product_alone_is_ours_whatever_its_size() -> None:
    alone = task("alone", "return x @ y", "torch.randn(32, 40), torch.randn(40, 24)", arguments="x, y")
    assert not any(isinstance(kernel, FunctionCall) for kernel in lower_task(alone).plan(frozenset()).kernels)
    assert all("tl.dot" in step.candidate.source for step in StepCompiler().build(alone, "triton").steps)


@pytest.mark.rotates
def test_convolutions_and_attention_may_be_ours_at_any_size() -> None:
    assert "own_convolution" in techniques(small("conv_tail"))
    assert "own_attention" in techniques(small("attention")) and "own_attention" in techniques(small("attention_by_hand"))
    found = techniques(small("network"))
    assert "own_convolution" in found and "own_product" not in found
