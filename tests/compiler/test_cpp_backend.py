from __future__ import annotations

import subprocess

import pytest
import torch
import torch.nn.functional as F
from executed import executed
from modules_in_cpp import QUICK, SWEEP, module
from small_tasks import SMALL

from bottega.compiler.backends.cpp import PASSES, wide_products, write
from bottega.compiler.backends.cpp.prelude import Prelude
from bottega.compiler.expression import Load, apply
from bottega.compiler.kernel import FunctionCall, Map, StoreOp
from bottega.compiler.module_frame import frame_of
from bottega.compiler.plan import KernelPlan
from bottega.compiler.planner_passes import FOR_THREADS
from bottega.compiler.planner_passes import PASSES as PLANNER
from bottega.compiler.step_compiler import lower_task
from bottega.compiler.view import Buffer, View
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

ALL = frozenset(technique.name for technique in (*PLANNER, *PASSES)) - {"statistics_apart"}


def _flat(value: object) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [item for part in value for item in _flat(part)]  # type: ignore[attr-defined]


def _check(source: str, techniques: frozenset[str], seed: int) -> None:
    """What is written agrees with the module in fp64, as closely as eager does or nearly so."""
    understood = lower_task(Task(source, "module"), with_library=False)
    plan = understood.plan(techniques)
    if all(isinstance(kernel, FunctionCall) for kernel in plan.kernels):
        return
    text = write(plan, understood.frame, techniques)
    task, candidate = executed(source, "task"), executed(text, "candidate")
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
        assert (text.index("first += TALL") < text.index("< panels")) == rows_outside


PACKED = {
    "linear": ("self.f(x)", "torch.randn(37, 230)", "self.f = nn.Linear(230, 75)"),
    "of short rows": ("self.f(x)", "torch.randn(9, 96)", "self.f = nn.Linear(96, 400)"),
    "a matrix": ("F.relu(x @ self.w)", "torch.randn(3, 5, 250)", "self.w = nn.Parameter(torch.randn(250, 70))"),
    "bfloat16": ("self.f(x)", "torch.randn(9, 250).bfloat16()", "self.f = nn.Linear(250, 66).bfloat16()"),
    "both types": (
        "self.f(x) + self.g(y)",
        "torch.randn(9, 250).bfloat16(), torch.randn(9, 260)",
        "self.f = nn.Linear(250, 66).bfloat16(); self.g = nn.Linear(260, 66)",
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_weights_are_packed_once_and_again_when_they_have_changed(name: str) -> None:
    body, inputs, init = PACKED[name]
    source = module(body, inputs, "x, y" if "y" in body else "x", init)
    _check(source, ALL, 5)
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    new, given = executed(text, "candidate").ModelNew().eval(), executed(source, "task").get_inputs()
    with torch.no_grad():
        first, kept = new(*given), [value for key, value in new.__dict__.items() if key.startswith("panels_of")]
        assert kept and torch.equal(new(*given), first)
        assert all(
            one is other for one, other in zip(kept, (new.__dict__[key] for key in new.__dict__ if key.startswith("panels")))
        )
        for weight in new.parameters():
            weight.mul_(-1)
        second = new(*given)
        for weight in new.parameters():
            weight.data += 1  # which raises no version
        third = new(*given)
        assert not torch.equal(second, first) and not torch.equal(third, second)
    other = executed(source, "task").Model().eval()
    new.load_state_dict(other.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(new(*given), other(*given), atol=2e-2, rtol=2e-2)


def test_panels_are_kept_only_of_whole_weights_and_for_some_rows() -> None:
    """One row reads a weight once; of many rows packing is a trifle; and what is not the module's own may change unseen."""
    for body, rows in (("self.f(x)", 1), ("self.f(x)", 600), ("x @ self.f.weight[:90].t()", 9), ("x @ y", 9)):
        init, inputs = "self.f = nn.Linear(200, 100)", f"torch.randn({rows}, 200), torch.randn(200, 100)"
        lowered = lower_task(Task(module(body, inputs, "x, y", init), "module"), with_library=False)
        assert "packed(" not in write(lowered.plan(ALL), lowered.frame, ALL)


def test_an_index_that_is_cut_into_halves_has_a_loop_for_each() -> None:
    """Halves that are turned and put together again, as by rotary embeddings: no rest of a division in the innermost loop."""
    source = module("torch.cat([x[..., :16] * x[..., 16:] - 1.5, x[..., 16:] - x[..., :16]], -1)", "torch.randn(3, 5, 32)")
    understood = lower_task(Task(source, "module"), with_library=False)
    text = write(understood.plan(ALL), understood.frame, ALL)
    assert "remainder_of" not in text and "piece += 16" in text
    _check(source, ALL, 0)


SHIFTED = {
    "stride 3, dilated": ("nn.Conv2d(4, 10, 3, stride=3, padding=2, dilation=2)", "2, 4, 23, 19"),
    "groups of five": ("nn.Conv2d(6, 15, (3, 2), groups=3, padding=1)", "2, 6, 9, 12"),
    "narrow rows": ("nn.Conv2d(3, 7, 3, padding=1)", "1, 3, 40, 5"),
    "many images": ("nn.Conv2d(3, 7, 3, stride=(1, 2))", "11, 3, 8, 9"),
    "volumes": ("nn.Conv3d(3, 8, 3, stride=(2, 1, 2), padding=(1, 0, 2))", "2, 3, 7, 9, 8"),
    "one dimension": ("nn.Conv1d(5, 6, 4, stride=2, padding=3)", "3, 5, 31"),
    "many weights": ("nn.Conv2d(90, 85, 3, padding=1)", "1, 90, 6, 7"),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_convolutions_over_a_padded_copy(name: str) -> None:
    layer, shape = SHIFTED[name]
    _check(module("F.relu(self.c(x)) * 2", f"torch.randn({shape})", init=f"self.c = {layer}"), ALL, 5)


def test_weights_in_another_order_or_type_are_copied_for_a_tile() -> None:
    last = "self.c = nn.Conv2d(4, 8, 3, padding=1).to(memory_format=torch.channels_last)"
    _check(module("self.c(x) + 1", "torch.randn(2, 4, 9, 10)", init=last), ALL, 5)
    half = "self.c = nn.Conv2d(4, 8, 3, padding=1, dtype=torch.bfloat16)"
    _check(module("self.c(x) + 1", "torch.randn(2, 4, 9, 10, dtype=torch.bfloat16)", init=half), ALL, 5)


def test_rows_that_lie_across_memory_are_packed_for_a_product() -> None:
    source = module("x.t() @ y", "torch.randn(50, 23), torch.randn(50, 31)", "x, y")
    _check(source, ALL, 5)
    _check(module("x.transpose(1, 2) @ y", "torch.randn(9, 50, 23), torch.randn(9, 50, 31)", "x, y"), ALL, 5)
    lowered = lower_task(Task(source, "module"), with_library=False)
    assert "pack_columns<TALL>(x + " in write(lowered.plan(ALL), lowered.frame, ALL)


@pytest.mark.parametrize("shape", ["3, 50, 77", "2, 16, 16", "9, 33, 8", "40, 21, 45"])
def test_rows_that_lie_along_the_depth_are_turned_into_panels_square_by_square(shape: str) -> None:
    source = module("x @ x.transpose(1, 2)", f"torch.randn({shape})")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "pack_rows<WIDE>(x + " in text and "  // as on the other side" in text
    _check(source, ALL, 5)
    _check(
        module("(x @ x.transpose(1, 2) + y) * 2", f"torch.randn({shape}), torch.randn(1, {shape.split(', ')[1]})", "x, y"),
        ALL,
        5,
    )
    _check(module("F.linear(x, y)", "torch.randn(50, 70), torch.randn(41, 70)", "x, y"), ALL, 5)


@pytest.mark.parametrize("shape", ["200, 8, 20", "131, 12, 33"])
@pytest.mark.parametrize("columns", [72, 40, 17, 13])
def test_rows_that_come_before_batches_in_memory_are_walked_first(shape: str, columns: int) -> None:
    _, heads, depth = shape.split(", ")
    source = module(
        "torch.einsum('thd,hde->the', x, y)", f"torch.randn({shape}), torch.randn({heads}, {depth}, {columns})", "x, y"
    )
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "kept_panels(batch * panels" in text and "// half a panel" in text
    _check(source, ALL, 5)


@pytest.mark.parametrize(
    "pads, merged",
    [("(8, 0)", True), ("(2, 2)", True), ("(1, 3)", False), ("(2, 2), value=1.0", False)],
)
def test_a_convolution_pads_for_itself(pads: str, merged: bool) -> None:
    for layer in ("nn.Conv1d(6, 6, 3, dilation=2)", "nn.Conv1d(6, 8, 3, stride=2)", "nn.Conv1d(6, 6, 5, groups=6)"):
        source = module(f"F.relu(self.c(F.pad(x, {pads})))", "torch.randn(3, 6, 50)", init=f"self.c = {layer}")
        lowered = lower_task(Task(source, "module"), with_library=False)
        assert ("F.pad" not in write(lowered.plan(ALL), lowered.frame, ALL)) == merged
        _check(source, ALL, 5)


@pytest.mark.parametrize(
    "layer, shape",
    [
        ("ConvTranspose1d(8, 7, 16, stride=8, padding=4)", "3, 8, 37"),
        ("ConvTranspose1d(5, 13, 3, stride=1, padding=2)", "2, 5, 40"),
        ("ConvTranspose1d(5, 2, 4, stride=3, dilation=2, output_padding=1)", "1, 5, 70"),
        ("ConvTranspose2d(6, 9, (3, 5), stride=(2, 3), padding=(1, 2), output_padding=(1, 0))", "2, 6, 7, 11"),
        ("ConvTranspose2d(4, 8, 4, stride=2, padding=1, bias=False)", "9, 4, 5, 1"),
        ("ConvTranspose3d(4, 6, 3, stride=2, padding=1)", "2, 4, 3, 4, 5"),
    ],
)
def test_a_tile_of_one_phase_of_a_transposed_convolution(layer: str, shape: str) -> None:
    source = module("F.relu(self.c(x)) * 2", f"torch.randn({shape})", init=f"self.c = nn.{layer}")
    lowered = lower_task(Task(source, "module"), with_library=False)
    assert "a tile's weights side by side" in write(lowered.plan(ALL), lowered.frame, ALL)
    _check(source, ALL, 5)


def test_a_convolution_in_two_dimensions_pads_for_itself() -> None:
    source = module("self.c(F.pad(x, (1, 0, 2, 2)))", "torch.randn(3, 6, 20, 17)", init="self.c = nn.Conv2d(6, 8, 3)")
    lowered = lower_task(Task(source, "module"), with_library=False)
    assert "F.pad" not in write(lowered.plan(ALL), lowered.frame, ALL)
    _check(source, ALL, 5)


@pytest.mark.parametrize("columns, whole", [(64, True), (512, True), (300, False)])
def test_a_tile_of_columns_has_a_known_length_where_all_are_full(columns: int, whole: bool) -> None:
    source = module("x.sum(1)", f"torch.randn(5, 30, {columns})")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert (f"start + {min(columns, 256)};" in text) == whole and ("std::min<int64_t>(start + 256" in text) != whole
    _check(source, ALL, 3)


@pytest.mark.parametrize(
    "shape, options",
    [("2, 3, 9, 40", "7, padding=3"), ("2, 3, 1, 9", "3, padding=1"), ("1, 4, 6, 70", "(7, 1), padding=(3, 0)"),
     ("2, 8, 7, 200", "3, padding=(0, 1), dilation=(1, 2)"), ("2, 4, 9, 40", "3, stride=(1, 2)"), ("2, 4, 130", "5, stride=3")],
)  # fmt: skip
def test_depthwise_tiles_of_two_rows_and_of_as_many_vectors_as_divide_a_row(shape: str, options: str) -> None:
    channels, dims = shape.split(", ")[1], shape.count(",") - 1
    layer = f"self.c = nn.Conv{dims}d({channels}, {channels}, {options}, groups={channels})"
    _check(module("self.c(x).relu() * 2", f"torch.randn({shape})", init=layer), ALL, 3)


@pytest.mark.parametrize(
    "body", ["F.softplus(x)", "F.logsigmoid(x * 3)", "torch.logaddexp(x, x.flip(1))", "torch.log1p(x.abs())"]
)
def test_a_softplus_needs_one_division(body: str) -> None:
    source = module(body, "torch.randn(40, 33) * 4")
    lowered = lower_task(Task(source, "module"), with_library=False)
    assert ("log1p_below_one_simd(" in write(lowered.plan(ALL), lowered.frame, ALL)) == ("log1p" not in body)
    _check(source, ALL, 3)


@pytest.mark.parametrize(
    "shape, threads, kernels", [("8, 16, 3000", True, 1), ("8, 16, 3000", False, 2), ("2, 16, 3000", True, 2)]
)
def test_long_rows_are_normalised_in_one_loop_where_each_thread_has_some(shape: str, threads: bool, kernels: int) -> None:
    source = module("self.n(x)", f"torch.randn({shape})", init="self.n = nn.GroupNorm(4, 16)")
    passes = ALL | {"statistics_apart", *([FOR_THREADS] if threads else [])}
    lowered = lower_task(Task(source, "module"), with_library=False)
    assert write(lowered.plan(passes), lowered.frame, passes).count('extern "C"') == kernels
    _check(source, passes, 3)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
def test_distances_of_all_pairs(order: float) -> None:
    inputs = "torch.randn(3, 7, 20), torch.randn(3, 9, 20)"
    _check(module(f"torch.cdist(x, y, p=float('{order}')) + 1", inputs, "x, y"), ALL, 5)


@pytest.mark.parametrize("largest", [True, False])
def test_extremes_of_all_signs_and_of_what_is_no_number(largest: bool) -> None:
    source = module(f"x.{'amax' if largest else 'amin'}(-1) * 1", "torch.randn(9, 37)")
    lowered = lower_task(Task(source, "module"), with_library=False)
    new = executed(write(lowered.plan(ALL), lowered.frame, ALL), "candidate").ModelNew()
    x = torch.randn(9, 37)
    x[0], x[1], x[2] = x[0].abs(), -x[1].abs(), -float("inf")
    x[3], x[4, 5], x[5, 6], x[6, 7] = float("inf"), float("nan"), -float("nan"), -float("inf")
    torch.testing.assert_close(new(x), x.amax(-1) if largest else x.amin(-1), equal_nan=True)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "copied"),
    [(150, 40, 70, False), (150, 200, 70, True), (40, 200, 70, False), (150, 200, 400, False)],
)
def test_many_rows_are_copied_side_by_side_when_a_thread_comes_to_them(
    rows: int, depth: int, columns: int, copied: bool
) -> None:
    """All at once they pass through memory twice; shallow ones lie in the first cache as they are."""
    source = module("F.relu(x @ y)", f"torch.randn({rows}, {depth}), torch.randn({depth}, {columns})", "x, y")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert (f"float side[{depth} * TALL];" in text) == copied and ("lines[TALL]" in text) == (depth == 40)
    _check(source, ALL, 5)
    if copied:
        _check(
            module("torch.einsum('thd,hde->the', x, y)", f"torch.randn(150, 9, {depth}), torch.randn(9, {depth}, 72)", "x, y"),
            ALL,
            5,
        )


def test_cat_has_a_loop_for_each_part() -> None:
    """In one loop each element chooses its source, and no vectors are made."""
    source = module("torch.cat([x * 2, y], -1)", "torch.randn(9, 40), torch.randn(9, 13)", "x, y")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL).split('extern "C"')[1]
    assert text.count("#pragma omp simd") == 2 and "?" not in text and "imum(" not in text
    _check(source, ALL, 3)
    _check(module("torch.cat([x, y], -1).softmax(-1)", "torch.randn(9, 40), torch.randn(9, 13)", "x, y"), ALL, 3)


TABLE = "self.e = nn.Embedding(500, 50)"


@pytest.mark.parametrize(
    "body",
    ["self.e(x).sum(1)", "self.e(x).square().mean(1) + 1", "F.embedding_bag(x, self.e.weight, mode='sum')",
     "F.embedding_bag(x, self.e.weight, mode='mean') * 2"],
)  # fmt: skip
def test_sums_over_rows_of_a_table_are_vectors_and_the_next_rows_are_fetched(body: str) -> None:
    source = module(body, "torch.randint(0, 500, (30, 7))", init=TABLE)
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "+= " in text and "sum_of" not in text and "+ 8, 209)" in text and "embedding_bag.default" not in text
    _check(source, ALL, 3)


@pytest.mark.parametrize("more", ["offsets=y", "mode='max'", "padding_idx=0, mode='sum'"])
def test_other_bags_are_left_to_torch(more: str) -> None:
    inputs = "torch.randint(0, 5, (7,))" if "offsets" in more else "torch.randint(0, 5, (30, 7))"
    _check(module(f"F.embedding_bag(x, self.e.weight, {more}) * 2", f"{inputs}, torch.tensor([0, 3])", "x, y", TABLE), ALL, 3)


@pytest.mark.parametrize("columns", [12, 37])
def test_the_largest_few_are_overwritten_where_they_are_found(columns: int) -> None:
    """With a row in memory nothing is computed for each of them again, nor chosen by place."""
    source = module("torch.topk(x * 2, 4)[0] + 0.5", f"torch.randn(9, {columns})")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert f"top_of<4, {columns}>(" in text and "smallest_of" not in text
    x = torch.randn(9, columns)
    x[0], x[1], x[2, 1:], x[3, 1] = 3.0, -float("inf"), -float("inf"), float("nan")
    x[4, 1:3], x[5], x[6, 0] = -float("nan"), float("nan"), float("inf")
    torch.testing.assert_close(
        executed(text, "candidate").ModelNew()(x), torch.topk(x * 2, 4)[0] + 0.5, equal_nan=True, rtol=0, atol=0
    )
    _check(source.replace("x * 2", "x.double()"), ALL, 3)


def test_what_is_kept_of_a_row_is_what_saves_most() -> None:
    """Not the longest, which only the last two sweeps need: the exponential is then computed in all sweeps before. And no sum of two loads."""
    body = "(x.exp() * y - x.exp().amax(-1, True)) / (x.exp() * y - x.exp().amax(-1, True)).abs().amax(-1, True)"
    inputs = "torch.randn(9, 40), torch.randn(9, 40)"
    written = []
    for text in (body, "F.layer_norm(x + y, (40,))"):
        lowered = lower_task(Task(module(text, inputs, "x, y"), "module"), with_library=False)
        written.append(write(lowered.plan(ALL), lowered.frame, ALL).split('extern "C"')[1])
    assert written[0].count("exp_simd(") == 1 and "= exp_simd(" in written[0]
    assert "y[r * columns + c]" in written[1].split("#pragma omp simd")[-1]


@pytest.mark.parametrize("chosen", ["x * 0.5 + y", "torch.where(y > 0, x, y * 2)"])
def test_what_a_masked_element_is_computed_of_is_loaded_before_the_choice(chosen: str) -> None:
    """Loaded behind it, a softmax over masked scores is no vector."""
    source = module(
        f"({chosen}).masked_fill(m, -1e9).softmax(-1)",
        "torch.randn(9, 40), torch.randn(9, 40), torch.rand(9, 40) > 0.5",
        "x, y, m",
    )
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL).split("largest_of(columns")[1].split("});")[0]
    assert all(f"= {name}[r * columns + c];" in text for name in "xy")
    _check(source, ALL, 3)


def test_a_rectifier_is_three_instructions_and_passes_on_what_is_no_number() -> None:
    source = module("F.relu(x) + 1", "torch.randn(7)")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "v < 0 ? 0 : v" not in text, "on an ARM seven instructions"
    x = torch.tensor([float("nan"), -float("nan"), float("inf"), -float("inf"), -0.0, 2.0, -2.0])
    torch.testing.assert_close(executed(text, "candidate").ModelNew()(x), F.relu(x) + 1, equal_nan=True)


def test_the_window_of_a_pool_has_no_branches() -> None:
    """The value so far stands first: g++ makes no vectors where a choice is made by what another choice gave."""
    source = module("F.max_pool2d(F.relu(x * 2 - 1), 3, 2, 1)", "torch.randn(2, 3, 15, 23)")
    lowered = lower_task(Task(source, "module"), with_library=False)
    text = write(lowered.plan(ALL), lowered.frame, ALL)
    assert "row[ix] = maximum(row[ix], relu(" in text


@pytest.mark.parametrize("body", ["maximum(maximum(x[i], y[i]), x[i + 9])", "minimum(y[i], minimum(x[i], x[i + 9]))"])
def test_extremes_of_several_are_vectors(body: str) -> None:
    prelude = Prelude()
    prelude.use("maximum")
    prelude.use("minimum")
    loop = f"  #pragma omp simd\n  for (int64_t i = 0; i < n; ++i) y[i] = {body};\n"
    source = f"#include <cstdint>\n{prelude.text([body])}\nvoid f(const float* x, float* y, int64_t n) {{\n{loop}}}\n"
    command = ["g++", "-x", "c++", "-", "-O3", "-fopenmp", "-fno-trapping-math", "-fopt-info-vec", "-S", "-o", "/dev/null"]
    ran = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert "loop vectorized" in ran.stderr


def test_a_cpu_without_halves_gets_products_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "F.gelu(self.f(x)) + F.scaled_dot_product_attention(q, q, q, attn_mask=m).sum(1)"
    inputs = "torch.randn(3, 37, 50).to(H), torch.randn(3, 2, 37, 16).to(H), torch.rand(37, 37) > 0.2"
    source = "import torch\nH = torch.bfloat16\n" + module(body, inputs, "x, q, m", "self.f = nn.Linear(50, 16, dtype=H)")
    monkeypatch.setattr(wide_products, "slow_types", lambda: frozenset({"bfloat16"}))
    kept = ALL - {"own_product", "own_attention"}
    _check(source, kept, 3)
    understood = lower_task(Task(source, "module"), with_library=False)
    text = write(understood.plan(kept), understood.frame, kept)
    assert "F.linear(x.float(), self.f.weight.float(), self.f.bias.float()).to(torch.bfloat16)" in text
    assert "attn_mask=m" in text and "q.float()" in text
    monkeypatch.setattr(wide_products, "slow_types", lambda: frozenset({"float16"}))
    assert ".float()" not in write(understood.plan(kept), understood.frame, kept)


@pytest.mark.parametrize(
    ("layer", "shape", "product"),
    [
        ("nn.ConvTranspose2d(5, 7, (2, 3), stride=(2, 3))", "2, 5, 4, 6", True),
        ("nn.ConvTranspose1d(5, 7, 4, stride=4, bias=False)", "3, 5, 9", True),
        ("nn.ConvTranspose2d(5, 7, 3, stride=2)", "2, 5, 4, 6", False),
        ("nn.ConvTranspose2d(6, 8, 2, stride=2, groups=2)", "2, 6, 4, 6", False),
    ],
)
def test_windows_that_do_not_overlap_are_a_product(layer: str, shape: str, product: bool) -> None:
    source = module("F.relu(self.c(x))", f"torch.randn({shape})", init=f"self.c = {layer}")
    light = ALL - {"own_convolution", "own_product"}
    _check(source, light, 3)
    understood = lower_task(Task(source, "module"), with_library=False)
    text = write(understood.plan(light), understood.frame, light)
    assert ("torch.bmm" in text) == product and ("F.conv_transpose" in text) != product
