"""What the Triton writer writes computes what the module does, at every step of a build."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from half_tasks import HALVES
from small_tasks import SMALL, task
from triton_process import interpreted
from triton_tasks import WIDE

from bottega.compiler.backends.triton.even_rows import pieces_of
from bottega.compiler.backends.triton.passes import PASSES
from bottega.compiler.backends.triton.write import write
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Apply, Constant
from bottega.compiler.step_compiler import LoweredTask, StepCompiler, lower_task
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

HERE = Path(__file__).parent
LIMIT = 5e-6
LOOSE = {"halves": 2e-2, **{given.name: 1.2 for given in HALVES}}
"""Of modules in halves: how many times the module's own error."""
QUICK = (
    *(
        "slices",
        "statistics",
        "nan_kept",
        "first_of_equals",
        "first_nan",
        "heads",
        "conv_strides",
        "conv_depthwise",
        "turned_uneven",
    ),
    *("pool_rounded_up", "no_elements"),
    *("pool_padded", "product_turned", "attend", "recurrent_pair", "conv_spoken", "far_first", "scan_logs"),
    *("pool_wide", "top_of_rows", "top_with_nan", "product_strips", "attend_pieces", "rolled", "nearest", "numbered"),
)
"""Between them, every technique of these and of the longer ones."""
QUICK_HALVES = (
    *("decoder_bf16", "convnext_bf16", "product_tail_bf16", "residual_norm_bf16", "joined_rows_bf16"),
    *(
        "normed_heads_bf16",
        "heads_first_bf16",
        "residual_sum_bf16",
        "response_norm_bfloat16",
        "query_and_key_bfloat16",
        "even_rows_bfloat16",
        "even_constants_bf16",
    ),
    *("unbatched_bias_bf16", "other_biases_bf16", "self_attention_bf16"),
)
LONGER_HALVES = tuple(given.name for given in HALVES if given.name not in (*QUICK_HALVES, "long_logits_bf16"))
"""That one takes the interpreter minutes; test_drafts_on_a_gpu.py has it."""
LONGER = ("bias_planes", "layer_norm", "recurrent_given", "turned_spoken")


def judged(limits: str, names: tuple[str, ...] = ()) -> dict[str, list]:
    return interpreted(HERE / "triton_interpreted.py", limits, *names)


def wrong(found: dict[str, list]) -> list:
    return [
        (name, technique, error)
        for name, steps in found.items()
        for technique, error in steps
        if isinstance(error, str) or not error < LOOSE.get(name, LIMIT)
    ]


@pytest.mark.parametrize("names", [QUICK, pytest.param(LONGER, marks=pytest.mark.slow)], ids=["quick", "longer"])
def test_steps_compute_what_the_module_does(names: tuple[str, ...]) -> None:
    found = judged("tight", names)
    assert wrong(found) == []
    assert all(found.values())


@pytest.mark.parametrize("names", [QUICK_HALVES, pytest.param(LONGER_HALVES, marks=pytest.mark.slow)], ids=["quick", "longer"])
def test_modules_in_halves_are_as_exact_as_torch(names: tuple[str, ...]) -> None:
    found = judged("wide", names)
    assert wrong(found) == []
    assert all(found.values())


@pytest.mark.slow
@pytest.mark.timeout(1500)  # seven minutes of a core, which others may use too
@pytest.mark.parametrize("limits", ["wide", "tight"])
def test_every_small_task_in_every_step(limits: str) -> None:
    assert wrong(judged(limits)) == []


@cache
def known(name: str) -> LoweredTask:
    return lower_task(next(one for one in (*SMALL, *WIDE) if one.name == name))


def source(name: str, *techniques: str) -> str:
    understood = known(name)
    chosen = frozenset(techniques)
    return write(understood.plan(chosen), understood.frame, chosen)


def test_wide_windows_are_read_along_memory_and_a_row_is_held_while_its_largest_are_taken() -> None:
    pools, tops = source("pool_wide"), source("top_of_rows")
    assert "kx = tl.arange(0, TAPS)[None, :]" in pools and "for kx in" not in pools
    assert "torch.topk" not in tops and tops.count("tl.min(") == 5 and "tl.argmax(" not in tops


def last(given: Task) -> str:
    """The draft in which all is ours."""
    return next(
        step for step in reversed(StepCompiler().build(given, "triton").steps) if "shelved" not in step.technique
    ).candidate.source


def test_shallow_products_walk_strips_of_columns_and_heads_are_taken_in_two_powers_of_two() -> None:
    text = last(task("p", "return x @ y", "torch.randn(49152, 48), torch.randn(48, 49152)", arguments="x, y"))
    assert text.count("tl.dot(") == 3 and "for step in range(STRIP):" in text and "mask=" not in text and "turned = y.t" in text
    assert "STRIP" not in last(task("p", "return x @ y", "torch.randn(512, 48), torch.randn(48, 512)", arguments="x, y"))
    heads = ", ".join(["torch.randn(24, 24, 1024, 96)"] * 3)
    text = last(task("a", "return F.scaled_dot_product_attention(x, y, z)", heads, arguments="x, y, z"))
    assert "d1 = 64 + tl.arange(0, 32)" in text and text.count("tl.dot(") == 4 and "turned = z.t" in text and "128" not in text


def test_what_is_reduced_and_stored_is_read_once() -> None:
    body = "y = F.gelu(x)\nreturn y, torch.linalg.vector_norm(y, dim=1)"
    given = task("n", body, "torch.randn(2, 600, 8, dtype=torch.bfloat16)")
    step = next(step for step in StepCompiler().build(given, "triton").steps if step.technique == "fuse_rows")
    (kernel,) = (text for text in step.candidate.source.split("@triton.jit") if "for start" in text)
    assert kernel.count("one_plus_erf(x") == kernel.count("for start") == 1 and kernel.count("tl.store(") == 2


def test_a_row_is_cut_into_equal_pieces_that_leave_fewer_lanes_idle() -> None:
    found = [pieces_of(count) for count in (768, 1100, 2880, 5120, 11008, 14336, 1000, 4096)]
    assert found == [(3, 256), (5, 256), (3, 1024), (5, 1024), (3, 4096), (7, 2048), (1, 1024), (1, 4096)]
    given = task("n", "return F.rms_norm(x, (768,), self.w)", "torch.randn(2, 768)", "self.w = nn.Parameter(torch.ones(768))")
    text = next(step for step in StepCompiler().build(given, "triton").steps if step.technique == "even_rows").candidate.source
    assert "mask" not in text and text.index("tl.load(w_ptr + column3)") < text.index("tl.sum(")


def test_the_rotations_of_queries_and_keys_are_one_launch() -> None:
    given = next(one for one in HALVES if one.name == "rotated_pair_bf16")
    step = next(step for step in StepCompiler().build(given, "triton").steps if step.technique == "side_by_side")
    assert step.candidate.source.count("_kernel[") == 1 and "_part(program - first, k_ptr" in step.candidate.source


def test_sums_of_a_convolution_fit_into_registers() -> None:
    """Sixty-four columns of four warps were kept in memory: 272 bytes of a thread on sm_90."""
    given = task("c", "return self.c(x) + 1", "torch.randn(4, 40, 64, 64)", "self.c = nn.Conv2d(40, 56, 3, padding=1)")
    text = next(
        step for step in StepCompiler().build(given, "triton").steps if step.technique == "tuned_tiles"
    ).candidate.source
    assert "BLOCK_M=128, BLOCK_N=64, BLOCK_K=16, num_warps=8" in text


def test_a_technique_that_does_not_apply_changes_nothing() -> None:
    plain = source("bias_planes")
    for technique in PASSES:
        assert source("bias_planes", technique.name) == plain


def test_sizes_are_read_off_tensors() -> None:
    text = source("bias_planes", "fuse_elementwise")
    assert "x.shape[1]" in text
    assert "x.numel()" in text


def test_products_of_fp32_keep_their_accuracy() -> None:
    assert 'input_precision="ieee"' in source("product_split")
    assert 'input_precision="tf32x3"' in source("product_split", "tf32x3")
    dots = re.findall(r"tl\.dot\(.*\)", source("attend", "own_attention", "tf32x3"))
    assert dots
    assert all('input_precision="tf32x3"' in dot for dot in dots)


@pytest.mark.parametrize("name", ["conv_spoken", "turned_spoken", "product_spoken", "attend_spoken", "rows_spoken"])
def test_no_kernel_writes_over_its_arguments(name: str) -> None:
    for techniques in ((), ("own_product", "own_convolution", "own_attention", *(item.name for item in PASSES))):
        for kernel in ast.parse(source(name, *techniques)).body:
            if isinstance(kernel, ast.FunctionDef):
                written = {
                    node.id for node in ast.walk(kernel) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                }
                assert not written & {argument.arg for argument in kernel.args.args}


def test_every_step_of_a_build_names_what_it_adds() -> None:
    given = next(one for one in WIDE if one.name == "turned_even")
    names = [step.technique for step in StepCompiler().build(given, "triton").steps]
    assert names[0] == "naive"
    assert {"phases", "tf32x3"} <= set(names)


def test_what_it_does_not_understand_it_refuses() -> None:
    given = next(one for one in SMALL if one.name == "chain")
    understood = lower_task(given)
    plan = understood.plan(frozenset())
    kernel = plan.kernels[0]
    strange = replace(kernel.stores[0], body=Apply("atan2", (Constant(1.0), Constant(2.0))))
    broken = replace(plan, kernels=(replace(kernel, stores=(strange,)),))
    with pytest.raises(Refusal):
        write(broken, understood.frame, frozenset())


def test_a_long_row_that_is_read_twice_is_still_in_the_cache_the_second_time() -> None:
    text = written("normed", "return x / x.norm(dim=1, keepdim=True)", "torch.randn(600, 40000)")
    assert text.count("tl.load(x_ptr") == 2 and "BLOCK=8192, num_warps=32" in text
    assert "BLOCK=4096, num_warps=8" in written("length", "return x.norm(dim=1)", "torch.randn(600, 40000)")


def test_places_in_a_row_take_32_bits_where_the_tensor_takes_64() -> None:
    text = written("place", "return torch.max(x, dim=1)[1] + 1", "torch.randn(128, 4096, 4096)")
    assert "tl.zeros((COLUMNS, ROWS), tl.int32)" in text and "column.to(tl.int32)" in text
    assert "j + column * J" in text  # lanes lie along the inner dimension


def written(name: str, body: str, inputs: str) -> str:
    steps = StepCompiler().build(task(name, body, inputs), "triton", without=["graph_replay", "shelved_parts"]).steps
    return steps[-1].candidate.source


def test_a_maximum_below_exponentials_need_not_be_a_nan() -> None:
    for body in ("F.softmax(torch.where(x > 9, -torch.inf, x), 1)", "F.cross_entropy(x, torch.arange(16), reduction='none')"):
        assert "nan_max" not in written("rows", f"return {body}", "torch.randn(16, 300)")
    assert "nan_max" in written(
        "rows", "s = F.softmax(x, 1); return torch.where(s > 0.5, x.amax(1, True), s)", "torch.randn(16, 300)"
    )
