from __future__ import annotations

import types

import pytest
import torch
from modules_in_cpp import QUICK, SWEEP, module
from small_tasks import SMALL

from bottega.compiler.backends.cpp import PASSES, write
from bottega.compiler.expression import Load, apply
from bottega.compiler.kernel import FunctionCall, Map, StoreOp
from bottega.compiler.module_frame import frame_of
from bottega.compiler.plan import KernelPlan
from bottega.compiler.planner_passes import PASSES as PLANNER
from bottega.compiler.step_compiler import lower_task
from bottega.compiler.view import Buffer, View
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

ALL = frozenset(technique.name for technique in (*PLANNER, *PASSES)) - {"statistics_apart"}


def _module(source: str, name: str) -> types.ModuleType:
    made = types.ModuleType(name)
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def _flat(value: object) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [item for part in value for item in _flat(part)]  # type: ignore[attr-defined]


def _check(source: str, techniques: frozenset[str], seed: int) -> None:
    """What is written agrees with the module in fp64, as closely as eager does or nearly so."""
    understood = lower_task(Task(source, "module"), with_library=False)
    plan = understood.plan(techniques)
    if all(isinstance(kernel, FunctionCall) for kernel in plan.kernels):
        return
    text = write(plan, understood.frame, techniques)
    task, candidate = _module(source, "task"), _module(text, "candidate")
    torch.manual_seed(seed)
    model, exact, new = task.Model().eval(), task.Model().eval().double(), candidate.ModelNew().eval()
    new.load_state_dict(model.state_dict())
    exact.load_state_dict({name: value.double() for name, value in model.state_dict().items()})
    inputs = task.get_inputs()
    with torch.no_grad():
        wanted = _flat(exact(*[value.double() if value.is_floating_point() else value for value in inputs]))
        eager, got = _flat(model(*inputs)), _flat(new(*inputs))
    for reference, ordinary, ours in zip(wanted, eager, got):
        assert ours.shape == ordinary.shape and ours.dtype == ordinary.dtype
        scale = reference.double().abs().mean() + 1e-30
        allowed = max(2e-5, 10 * ((ordinary.double() - reference.double()).abs().max() / scale).item())
        assert ((ours.double() - reference.double()).abs().max() / scale).item() <= allowed, text


@pytest.mark.parametrize(
    "given", [one for one in SMALL if one.name in ("given_transposed", "channels_last")], ids=lambda one: one.name
)
def test_inputs_and_weights_may_lie_in_another_order(given: Task) -> None:
    _check(given.source, ALL, 3)


@pytest.mark.parametrize("name", QUICK)
def test_everything_switched_on_agrees_with_fp64(name: str) -> None:
    _check(QUICK[name], ALL, 3)


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("name", [*QUICK, *SWEEP])
def test_every_module_plain_and_tuned_agrees_with_fp64(name: str, plain: bool) -> None:
    _check({**QUICK, **SWEEP}[name], frozenset() if plain else ALL, len(name))


def _bias_plan() -> tuple[KernelPlan, Task]:
    """relu(x + bias), the bias along the channels of the middle."""
    source = module("F.relu(x + self.bias.view(8, 1))", "torch.randn(3, 8, 5)", init="self.bias = nn.Parameter(torch.randn(8))")
    x, b, y = (
        Buffer("x", (3, 8, 5), "float32", "input"),
        Buffer("self.bias", (8,), "float32", "parameter"),
        Buffer("y", (3, 8, 5), "float32"),
    )
    body = apply("relu", apply("add", Load(x.whole(), "float32"), Load(View("self.bias", (3, 8, 5), (0, 1, 0)), "float32")))
    plan = KernelPlan(
        {item.name: item for item in (x, b, y)},
        (Map((3, 8, 5), (StoreOp(y.whole(), body, "float32"),), ("add", "relu")),),
        "y",
        ("x",),
    )
    return plan, Task(source, "bias")


def test_sizes_come_from_tensors_and_broadcasts_are_hoisted() -> None:
    plan, task = _bias_plan()
    text = write(plan, frame_of(task), frozenset())
    kernel, forward = text.split("def forward")
    assert "x.shape[0], x.shape[1], x.shape[2])" in forward
    assert "[(b * channels + c) * inner + i]" in kernel
    assert "= bias[c];" in kernel


def test_a_technique_that_does_not_apply_changes_nothing() -> None:
    plan, task = _bias_plan()
    plain = write(plan, frame_of(task), frozenset())
    for technique in PASSES:
        if technique.name != "grain_threshold":
            assert write(plan, frame_of(task), frozenset({technique.name})) == plain


def test_what_a_row_of_a_tile_shares_is_read_before_its_loop_and_a_root_is_taken_once_a_channel() -> None:
    source = module(
        "F.relu(self.n(self.c(F.pad(x, (0, 0, 0, 0)))))",
        "torch.randn(2, 8, 9, 10)",
        init="self.c = nn.Conv2d(8, 12, 1, bias=False); self.n = nn.BatchNorm2d(12).eval()",
    )
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    kernel = text[text.index('extern "C"') :]
    assert kernel.count("std::sqrt") == 1 and kernel.index("std::sqrt") < kernel.index("#pragma omp parallel")
    assert kernel.index("running_mean[r]") < kernel.index("#pragma omp simd")
    assert "F.pad" not in text
    _check(source, ALL, 3)


def test_large_results_are_given_back_after_their_last_use() -> None:
    source = module(
        "F.gelu(self.g(F.gelu(self.f(x)))) + x",
        "torch.randn(130, 130)",
        init="self.f = nn.Linear(130, 130); self.g = nn.Linear(130, 130)",
    )
    lowered = lower_task(Task(source, "module"), with_library=False)
    light = ALL - {"own_product"}
    lines = [line.strip() for line in write(lowered.plan(light), lowered.frame, light).split("def forward")[1].splitlines()]
    freed = [name for line in lines if line.startswith("del ") for name in line.removeprefix("del ").split(", ")]
    made = [line.split(" = ")[0] for line in lines if " = " in line]
    assert set(freed) == set(made) - {lines[-1].removeprefix("return ")}
    _check(source, light, 3)


def test_a_mask_is_read_as_bytes_and_what_it_chooses_before_the_choice() -> None:
    source = module("torch.where(keep, x, 0.0).sum(-1)", "torch.randn(5, 70), torch.rand(5, 70) < 0.5", "x, keep")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "const uint8_t* keep" in text and "!= 0) ? v : 0.f" in text  # a bool, or a load behind the choice, is no vector
    _check(source, ALL, 3)


def test_rows_are_read_once_where_all_panels_fit_a_cache() -> None:
    for columns, rows_outside in ((72, True), (2048, False)):
        source = module("self.f(x)", "torch.randn(50, 64)", init=f"self.f = nn.Linear(64, {columns})")
        lowered = lower_task(Task(source, "module"), with_library=False)
        text = write(lowered.plan(ALL), lowered.frame, ALL).split("collapse(2)")[1]
        assert (text.index("first += HIGH") < text.index("< panels")) == rows_outside


def test_an_index_that_is_cut_into_halves_has_a_loop_for_each() -> None:
    """Halves that are turned and put together again, as by rotary embeddings: no rest of a division in the innermost loop."""
    source = module("torch.cat([x[..., :16] * x[..., 16:] - 1.5, x[..., 16:] - x[..., :16]], -1)", "torch.randn(3, 5, 32)")
    understood = lower_task(Task(source, "module"), with_library=False)
    text = write(understood.plan(ALL), understood.frame, ALL)
    assert "remainder_of" not in text and "piece += 16" in text
    _check(source, ALL, 0)
