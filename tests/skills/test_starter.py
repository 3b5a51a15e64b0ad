"""The starter cards pass validation, and their examples are run: a wrong example would be copied into every kernel it inspires.

One check for each example, against torch in double precision and at sizes that divide by nothing. C++ examples run through the
runtime, built together because that is quicker; Triton ones in the interpreter of a second process. On a GPU, Triton and CUDA.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from bottega.core.skill import NOTHING_MORE, Skill, SkillState
from bottega.runtime import cpp, cuda
from bottega.skills.starter import FOLDER, starter_cards

pytestmark = pytest.mark.rotates

CARDS = {card.name: card for card in starter_cards()}
CHECKS: dict[str, Callable[[Any, str], None]] = {}
FAMILIES = {
    "activation", "attention", "conv", "elementwise", "embedding", "indexing", "loss", "matmul", "norm", "pooling", "reduction",
    "rnn", "scan", "softmax",
}  # fmt: skip
MUTANTS = {  # an example, and a mistake that its own card warns of
    "softmax_one_exp_per_element": ("here == -INFINITY ? 0.f : here", "here"),
    "triton_neutral_mask_values": ("tl.where(inside, values - mean, 0.0)", "values - mean"),
}


def kind(card: Skill) -> str:
    """What the example is: `cpp`, `cuda` or `triton` source, or a `module` of Python that builds its own C++."""
    if "__global__" in card.example:
        return "cuda"
    if "import torch" not in card.example:
        return "cpp"
    return "triton" if "@triton.jit" in card.example else "module"


def names(*kinds: str) -> list[str]:
    return [name for name, card in CARDS.items() if kind(card) in kinds]


def checks(name: str) -> Callable[[Callable[[Any, str], None]], Callable[[Any, str], None]]:
    """The decorated function runs the example of this card and compares it with torch."""

    def keep(check: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
        assert name not in CHECKS, name
        CHECKS[name] = check
        return check

    return keep


def run_check(name: str, example: Any, device: str) -> None:
    torch.manual_seed(1)
    CHECKS[name](example, device)


def import_text(text: str, name: str, folder: Path) -> Any:
    """A module from text, by way of a file: Triton reads the source of its functions from there."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"starter_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(got: torch.Tensor, want: torch.Tensor, limit: float = 2e-6) -> None:
    """Right to a few units in the last place of fp32, relative to an element's size plus the root mean square."""
    assert got.shape == want.shape, (got.shape, want.shape)
    limit *= 5 if got.is_cuda else 1  # its exp, division and split products are good to a few units more
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
    fine = want.isfinite()
    got, want = got[fine], want[fine]
    error = ((got - want).abs() / (want.abs() + want.square().mean().sqrt() + 1e-30)).max()
    assert error <= limit, f"relative error {error:.2e}"


def normal(*shape: int, device: str = "cpu", offset: float = 0.0) -> torch.Tensor:
    return (torch.randn(*shape, dtype=torch.float64) + offset).float().to(device)


@checks("elementwise_chain_one_pass")
def _(k: Any, device: str) -> None:
    x, residual, scale, shift = normal(3, 5, 77) * 4, normal(3, 5, 77), normal(5), normal(5)
    x[0, 0, 0] = float("nan")
    y = torch.empty_like(x)
    k.scale_clamp_gate(x, scale, shift, residual, y, 3, 5, 77)
    want = (x.double() * scale.double()[:, None] + shift.double()[:, None]).clamp(0, 6) * residual.double()
    close(y, want)


@checks("softmax_one_exp_per_element")
def _(k: Any, device: str) -> None:
    for columns in (1, 37, 1500):
        x = normal(7, columns) * 20
        x[1, : columns // 2] = float("-inf")
        x[2] += torch.arange(columns) * 0.1
        y = torch.empty_like(x)
        k.softmax_rows(x, y, 7, columns)
        close(y, x.double().softmax(1))
    x = torch.full((1, 600), float("-inf"))
    k.softmax_rows(x, y := torch.empty_like(x), 1, 600)
    assert y.isnan().all()


@checks("norm_moments_by_blocks")
def _(k: Any, device: str) -> None:
    for inner in (3, 1700):
        x, gain, bias = normal(2, 6, inner, offset=50), normal(6), normal(6)
        y = torch.empty_like(x)
        k.group_norm_relu(x, gain, bias, y, 2, 3, 2, inner, 1e-5)
        close(y, F.group_norm(x.double(), 3, gain.double(), bias.double()).relu(), 2e-5)


@checks("reduction_split_over_threads")
def _(k: Any, device: str) -> None:
    for rows, columns in ((1, 100_003), (3, 40_001), (9, 5)):
        x, y = normal(rows, columns), torch.empty(rows)
        k.row_l2_norm(x, y, rows, columns)
        close(y, x.double().norm(dim=1), 3e-7)


@checks("sum_in_lanes_then_double")
def _(k: Any, device: str) -> None:
    for columns in (1, 63, 64, 10_001):
        x, y = normal(3, columns, offset=9), torch.empty(3)
        k.row_mean(x, y, 3, columns)
        close(y, x.double().mean(1), 3e-7)


@checks("exp_polynomial_simd")
def _(k: Any, device: str) -> None:
    x = torch.cat([torch.linspace(-87, 88, 200_001), torch.tensor([-1e9, 1e9, float("nan"), float("-inf"), float("inf")])])
    y = torch.empty_like(x)
    k.exponential(x, y, x.numel())
    want = x.double().exp()
    assert ((y - want).abs() / want)[:-5].max() < 3e-7
    assert y[-5:].tolist()[:2] == [0.0, float("inf")] and y[-3].isnan() and y[-2:].tolist() == [0.0, float("inf")]
    x = normal(1001) * 10
    k.silu(x, y := torch.empty_like(x), x.numel())
    close(y, F.silu(x.double()), 1e-6)


@checks("gelu_erf_simd")
def _(k: Any, device: str) -> None:
    x, bias = normal(5, 333) * 4, normal(333)
    y = torch.empty_like(x)
    k.bias_gelu(x, bias, y, 5, 333)
    close(y, F.gelu(x.double() + bias.double()), 1e-6)


@checks("tanh_two_range_simd")
def _(k: Any, device: str) -> None:
    x = torch.cat([torch.linspace(-200, 200, 10_001), torch.logspace(-20, 3, 1000), torch.tensor([float("nan"), 1e30, -1e30])])
    y = torch.empty_like(x)
    k.softcap(x, y, x.numel(), 30.0)
    want = 30 * (x.double() / 30).tanh()
    assert ((y - want).abs() / (want.abs() + 1e-30))[want.isfinite() & (want != 0)].max() < 5e-7
    assert y[-3].isnan() and y[-2:].tolist() == [30.0, -30.0]


@checks("matmul_packed_panels")
def _(k: Any, device: str) -> None:
    for m, n, depth in ((1, 1, 1), (13, 77, 300), (64, 96, 256), (7, 33, 600)):
        a, b, c = normal(m, depth), normal(depth, n), torch.full((m, n), float("nan"))
        k.matmul(a, b, c, m, n, depth)
        close(c, a.double() @ b.double(), 5e-6)


@checks("linear_few_rows_stream_weights")
def _(k: Any, device: str) -> None:
    for rows in (1, 6):
        x, w, bias, y = normal(rows, 131), normal(37, 131), normal(37), torch.empty(rows, 37)
        k.linear_relu(x, w, bias, y, rows, 131, 37)
        close(y, F.linear(x.double(), w.double(), bias.double()).relu(), 5e-6)


@checks("conv2d_direct_register_tile")
def _(k: Any, device: str) -> None:
    for h, w, oc, kernel, pad in ((9, 11, 6, 3, 1), (8, 70, 5, 5, 0), (6, 6, 1, 1, 2), (7, 33, 4, 2, 1)):
        x, weight, bias = normal(2, 3, h, w), normal(oc, 3, kernel, kernel), normal(oc)
        want = F.conv2d(x.double(), weight.double(), bias.double(), padding=pad).relu()
        y = torch.empty(want.shape)
        k.conv2d_relu(x, weight, bias, y, 2, 3, h, w, oc, kernel, kernel, pad)
        close(y, want, 5e-6)


@checks("depthwise_conv_padded_plane")
def _(k: Any, device: str) -> None:
    for size, pad in ((3, 1), (5, 0), (7, 3), (2, 1), (3, 4)):
        x, weight, bias = normal(2, 4, 9, 21), normal(4, 1, size, size), normal(4)
        want = F.conv2d(x.double(), weight.double(), bias.double(), padding=pad, groups=4)
        y = torch.empty(want.shape)
        k.depthwise(x, weight, bias, y, 8, 4, 9, 21, size, pad)
        close(y, want, 5e-6)


@checks("conv1x1_as_matmul_nchw")
def _(k: Any, device: str) -> None:
    for pixels in (49, 64, 150):
        x, weight, bias = normal(2, 19, pixels), normal(6, 19), normal(6)
        y = torch.empty(2, 6, pixels)
        k.conv1x1_relu(x, weight, bias, y, 2, 19, 6, pixels)
        close(y, (weight.double() @ x.double() + bias.double()[:, None]).relu(), 5e-6)


@checks("transposed_conv_by_phase")
def _(k: Any, device: str) -> None:
    for size, stride, pad, extra in ((4, 2, 1, 0), (3, 3, 0, 2), (5, 2, 2, 1), (2, 5, 0, 0), (7, 1, 3, 0)):
        x, weight, bias = normal(2, 3, 11), normal(3, 4, size), normal(4)
        want = F.conv_transpose1d(x.double(), weight.double(), bias.double(), stride, pad, extra)
        y = torch.empty(want.shape)
        k.conv_transpose1d(x, weight, bias, y, 2, 3, 11, 4, size, stride, pad, want.shape[2])
        close(y, want, 5e-6)


@checks("pool_columns_then_rows")
def _(k: Any, device: str) -> None:
    for size, stride, pad in ((3, 2, 1), (2, 2, 0), (5, 1, 2), (7, 3, 3)):
        x = normal(2, 3, 13, 18, offset=-5)
        x[0, 0, 3, 4] = float("nan")
        want = F.max_pool2d(x, size, stride, pad)
        y = torch.empty_like(want)
        k.max_pool2d(x, y, 6, 13, 18, size, stride, pad, *want.shape[2:])
        assert torch.equal(y.nan_to_num(99), want.nan_to_num(99))


@checks("scan_two_pass_threads")
def _(k: Any, device: str) -> None:
    for rows, columns in ((1, 50_001), (5, 10)):
        x = normal(rows, columns)
        y, before = torch.empty_like(x), torch.empty_like(x)
        k.cumsum(x, y, rows, columns, False)
        k.cumsum(x, before, rows, columns, True)
        want = x.double().cumsum(1)
        close(y, want, 2e-7)
        close(before, want - x.double(), 2e-7)


@checks("openmp_grain_threshold")
def _(k: Any, device: str) -> None:
    for rows in (3, 900):
        x = normal(rows, 101)
        y, squares = torch.empty_like(x), torch.empty(rows)
        k.scale_and_energy(x, 1.5, 0.25, y, squares, rows, 101)
        close(squares, (x.double() * 1.5 + 0.25).square().sum(1))


@checks("uneven_rows_dynamic_schedule")
def _(k: Any, device: str) -> None:
    a, b, c = normal(37, 37), normal(37, 21), torch.empty(37, 21)
    k.tril_matmul(a, b, c, 37, 21)
    close(c, a.double().tril() @ b.double(), 5e-6)


@checks("outer_reduction_private_rows")
def _(k: Any, device: str) -> None:
    for rows, columns in ((1, 5), (1001, 77), (10, 5000)):
        x, y = normal(rows, columns, offset=1), torch.empty(columns)
        k.mean_over_rows(x, y, rows, columns)
        close(y, x.double().mean(0))


@checks("scatter_add_private_copies")
def _(k: Any, device: str) -> None:
    for width in (5, 40):
        base, index, source = normal(11, width), torch.randint(11, (300,)), normal(300, width)
        y = torch.empty_like(base)
        k.index_add(base, index, source, y, 11, 300, width)
        close(y, base.double().index_add(0, index, source.double()), 5e-6)


@checks("streaming_stores_large_output")
def _(k: Any, device: str) -> None:
    x = normal(200_003)
    x[7] = float("nan")
    whole = torch.zeros(200_010)
    y = whole[3:200_006]
    k.relu_stream(x, y, x.numel())
    close(y, x.relu(), 0)
    assert whole[:3].eq(0).all() and whole[200_006:].eq(0).all()


@checks("gather_rows_prefetch")
def _(k: Any, device: str) -> None:
    for width in (7, 100):
        table, index, y = normal(50, width), torch.randint(50, (9, 13)), torch.empty(9, width)
        k.embedding_bag_sum(table, index, y, 9, 13, width)
        close(y, table.double()[index].sum(1))


@checks("argmax_value_then_index")
def _(k: Any, device: str) -> None:
    x = torch.randint(-9, -2, (40, 2500)).float()
    x[3, 1700], x[4, 2499], x[5, 1024:1030], x[6] = float("nan"), 5.0, 7.0, float("-inf")
    y = torch.empty(40, dtype=torch.int64)
    k.argmax_rows(x, y, 40, 2500)
    assert torch.equal(y, x.argmax(1))


@checks("upsample_tap_tables")
def _(k: Any, device: str) -> None:
    for size in ((14, 22), (19, 40), (3, 5), (7, 11)):
        x, y = normal(2, 3, 7, 11), torch.empty(2, 3, *size)
        k.upsample_bilinear(x, y, 6, 7, 11, *size)
        close(y, F.interpolate(x.double(), size, mode="bilinear", align_corners=False), 1e-5)


@checks("transpose_in_tiles")
def _(k: Any, device: str) -> None:
    x, y = normal(3, 17, 50), torch.empty(3, 50, 17)
    k.transpose(x, y, 3, 17, 50)
    assert torch.equal(y, x.transpose(1, 2))


@checks("attention_query_tiles")
def _(k: Any, device: str) -> None:
    for length in (1, 77, 200):
        q, key, v = (normal(3, length, 64) for _ in range(3))
        y = torch.empty_like(q)
        k.causal_attention(q, key, v, y, 3, length, 0.125)
        close(y, F.scaled_dot_product_attention(q.double(), key.double(), v.double(), is_causal=True))


@checks("bfloat16_bits_in_cpp")
def _(k: Any, device: str) -> None:
    x, residual = (normal(10_001) * 3).bfloat16(), normal(10_001).bfloat16()
    x[0], x[1], x[2] = float("nan"), float("inf"), 3.38e38
    y = torch.empty_like(x)
    k.scale_residual_relu_bf16(x, residual, y, 1.25, x.numel())
    want = (x.float() * 1.25 + residual.float()).relu().bfloat16()
    assert torch.equal(y.nan_to_num(7), want.nan_to_num(7))


@checks("loss_one_pass_stable")
def _(k: Any, device: str) -> None:
    for scale in (0.1, 3, 100):
        x, target, y = normal(40_001) * scale, torch.rand(40_001), torch.empty(1)
        k.bce_with_logits_mean(x, target, y, x.numel())
        close(y[0], F.binary_cross_entropy_with_logits(x.double(), target.double()), 5e-7)


@checks("recurrent_steps_in_one_call")
def _(k: Any, device: str) -> None:
    layer = torch.nn.RNN(7, 19, batch_first=True)
    x, start = normal(3, 9, 7), normal(1, 3, 19)
    projected = F.linear(x, layer.weight_ih_l0, layer.bias_ih_l0 + layer.bias_hh_l0).detach()
    transposed, y = layer.weight_hh_l0.detach().t().contiguous(), torch.empty(3, 9, 19)
    k.rnn_tanh(projected, transposed, start, y, 3, 9, 19)
    close(y, layer.double()(x.double(), start.double())[0], 5e-6)


@checks("fold_parameters_lazily")
def _(k: Any, device: str) -> None:
    model, x = k.ModelNew(13), normal(5, 13)
    for _ in range(2):  # parameters that are loaded later must be seen
        state = {name: torch.rand_like(value) + 0.5 for name, value in model.state_dict().items() if value.is_floating_point()}
        model.load_state_dict(state, strict=False)
        mean, variance, weight, bias, gain = (
            state[name].double() for name in ("norm.running_mean", "norm.running_var", "norm.weight", "norm.bias", "gain")
        )
        want = F.batch_norm(x.double(), mean, variance, weight, bias, eps=1e-5) * gain
        with torch.no_grad():
            close(model(x), want)


@checks("conv_batch_norm_folded")
def _(k: Any, device: str) -> None:
    x, w, bias, gamma, beta, mean, variance = normal(2, 3, 8, 8), normal(5, 3, 3, 3), *normal(4, 5), normal(5).square() + 0.1
    for given in (bias, None):
        folded, shift = torch.empty_like(w), torch.empty(5)
        k.fold_batch_norm(w, given, gamma, beta, mean, variance, 1e-5, folded, shift, 5, 27)
        plain = F.conv2d(x.double(), w.double(), None if given is None else given.double())
        want = F.batch_norm(plain, mean.double(), variance.double(), gamma.double(), beta.double(), eps=1e-5)
        close(F.conv2d(x.double(), folded.double(), shift.double()), want)


@checks("linear_then_sum_is_dot")
def _(k: Any, device: str) -> None:
    x, w, bias, y = normal(7, 100), normal(50, 100), normal(50), torch.empty(7)
    k.linear_sum(x, w, bias, y, 7, 100, 50, 0.25)
    close(y, F.linear(x.double(), w.double(), bias.double()).sum(1) * 0.25, 5e-7)


@checks("mean_before_linear")
def _(k: Any, device: str) -> None:
    x, w, bias, y = normal(3, 29, 37), normal(11, 37), normal(11), torch.empty(3, 11)
    k.mean_linear(x, w, bias, y, 3, 29, 37, 11)
    close(y, F.linear(x.double(), w.double(), bias.double()).mean(1))


@checks("shift_invariance_drops_terms")
def _(k: Any, device: str) -> None:
    x, bias = normal(2, 3, 50), normal(3, 1) * 10
    y = torch.empty_like(x)
    k.instance_norm(x, y, 6, 50, 1e-5)
    close(y, F.instance_norm(x.double() + bias.double()))


@checks("size_one_reductions_vanish")
def _(k: Any, device: str) -> None:
    x = normal(101, 1) * 4
    y = torch.empty_like(x)
    k.hardswish_of_column(x, y, 101)
    want = x.double().logsumexp(1, keepdim=True).logsumexp(1, keepdim=True)
    close(y, F.hardswish(want))


@checks("activation_after_max_pool")
def _(k: Any, device: str) -> None:
    x, scale, shift = normal(2, 3, 13, 10), torch.tensor([1.5, -2.0, 0.0]), normal(3)
    y = torch.empty(2, 3, 4, 3)
    k.pool_sigmoid(x, scale, shift, y, 6, 3, 13, 10, 3)
    active = (x.double() * scale.double()[:, None, None] + shift.double()[:, None, None]).sigmoid()
    close(y, F.max_pool2d(active, 3))


@checks("affine_clamp_chain_collapses")
def _(k: Any, device: str) -> None:
    x = normal(1001) * 3
    for c, lo2, hi2 in ((2.0, -1.0, 2.5), (-2.0, -1.0, 2.5), (0.5, 5.0, 6.0), (0.0, -1.0, 1.0)):
        y = torch.empty_like(x)
        k.affine_clamp(x, y, 1001, 1.5, 0.25, -1.0, 2.0, c, 0.75, lo2, hi2)
        close(y, ((x.double() * 1.5 + 0.25).clamp(-1, 2) * c + 0.75).clamp(lo2, hi2))


@checks("library_product_one_tail_kernel")
def _(k: Any, device: str) -> None:
    model, x = k.ModelNew(20, 36, 4), normal(7, 20)
    with torch.no_grad():
        got = model(x)
        want = F.hardtanh(model.double().norm(model.linear(x.double())))
    close(got, want, 1e-5)


@checks("int64_offsets")
def _(k: Any, device: str) -> None:
    x, factors = normal(5, 70, device=device), normal(5, device=device)
    close(k.scale(x, factors, block=32), x.double() * factors.double()[:, None])


@checks("strides_instead_of_copies")
def _(k: Any, device: str) -> None:
    model, x, gate = k.ModelNew(), normal(9, 21), normal(9, 21)
    for a, b in ((x, gate), (x, gate[:, :1]), (x, gate[:1]), (x.t(), gate.t()), (x[:, 3:11], gate[:, 5:13])):
        assert torch.equal(model(a, b), a * b)


@checks("compile_time_shapes")
def _(k: Any, device: str) -> None:
    model = k.ModelNew()
    for width in (5, 48):
        x = normal(3, 4, width)
        close(model(x), x.double() / x.double().abs().amax(-1, keepdim=True))


@checks("matmul_reduce_never_stored")
def _(k: Any, device: str) -> None:
    x, w, bias, y = normal(7, 33), normal(150, 33), normal(150), torch.empty(7)
    k.linear_logsumexp(x, w, bias, y, 7, 33, 150)
    close(y, F.linear(x.double(), w.double(), bias.double()).logsumexp(1))


@checks("write_into_concatenation")
def _(k: Any, device: str) -> None:
    a, b, y = normal(3, 4, 37), normal(3, 5, 37), torch.empty(3, 9, 37)
    k.relu_cat_scale(a, b, y, 3, 4, 5, 37, 0.5)
    assert torch.equal(y, torch.cat([a.relu(), b * 0.5], 1))


@checks("distances_through_products")
def _(k: Any, device: str) -> None:
    x, y, out = normal(13, 37, offset=40), normal(21, 37, offset=40), torch.empty(13, 21)
    k.distances(x, y, out, 13, 21, 37)
    close(out, torch.cdist(x.double(), y.double()), 5e-6)


@checks("symmetric_product_half")
def _(k: Any, device: str) -> None:
    x, c = normal(77, 30), torch.full((77, 77), float("nan"))
    k.gram(x, c, 77, 30, 0.5)
    close(c, x.double() @ x.double().t() * 0.5, 5e-6)
    assert torch.equal(c, c.t())


@checks("diagonal_product_as_scaling")
def _(k: Any, device: str) -> None:
    left, b, right = normal(9), normal(9, 21), normal(21)
    k.scale_both_sides(left, b, right, y := torch.empty_like(b), 9, 21)
    close(y, left.double().diag() @ b.double() @ right.double().diag())


@checks("product_chain_order")
def _(k: Any, device: str) -> None:
    q, key, v = (normal(2, 50, 12) for _ in range(3))
    k.linear_attention(q, key, v, y := torch.empty_like(q), 2, 50, 12)
    close(y, (q.double() @ key.double().transpose(1, 2)) @ v.double(), 5e-6)


@checks("workspace_kept_between_calls")
def _(k: Any, device: str) -> None:
    model = k.ModelNew()
    for rows, columns in ((4, 30), (4, 30), (2, 61), (5, 1)):
        x = normal(rows, columns)
        close(model(x), F.avg_pool1d(x.double()[None], 3, 1, 1)[0])


@checks("triton_neutral_mask_values")
def _(k: Any, device: str) -> None:
    x = normal(5, 37, device=device, offset=-30)
    peak, variance = k.statistics(x)
    assert torch.equal(peak, x.amax(1))
    close(variance, x.double().var(1, correction=0), 1e-5)


@checks("triton_short_rows_packed")
def _(k: Any, device: str) -> None:
    x = normal(131, 21, device=device) * 9
    close(k.softmax(x), x.double().softmax(1))


@checks("triton_online_softmax_long_rows")
def _(k: Any, device: str) -> None:
    x = normal(3, 1000, device=device) * 9
    x[1, :700] = float("-inf")
    close(k.softmax(x, block=128), x.double().softmax(1))


@checks("triton_grouped_program_order")
def _(k: Any, device: str) -> None:
    a, b = normal(290, 45, device=device), normal(45, 40, device=device)
    close(k.matmul(a, b, bm=32, bn=32, bk=32), a.double() @ b.double(), 5e-6)


@checks("triton_matmul_epilogue")
def _(k: Any, device: str) -> None:
    x, w, bias, residual = (normal(*shape, device=device) for shape in ((70, 45), (37, 45), (37,), (70, 37)))
    close(k.linear(x, w, bias, residual), F.gelu(F.linear(x.double(), w.double(), bias.double())) + residual.double(), 5e-6)


@checks("triton_split_k")
def _(k: Any, device: str) -> None:
    a, b, bias = normal(20, 200, device=device), normal(200, 37, device=device), normal(37, device=device)
    for splits in (2, 9):  # of seven steps: with nine, some splits have nothing to add
        close(k.linear_relu(a, b, bias, splits=splits), (a.double() @ b.double() + bias.double()).relu(), 5e-6)


@checks("triton_dot_precision")
def _(k: Any, device: str) -> None:
    a, b = normal(3, 70, 45, device=device), normal(3, 45, 67, device=device)
    close(k.bmm(a, b), a.double() @ b.double(), 5e-6)


@checks("triton_pipelined_stream")
def _(k: Any, device: str) -> None:
    w, x = normal(11, 1300, device=device), normal(1300, device=device)
    close(k.multiply(w, x), w.double() @ x.double(), 5e-6)


@checks("triton_flash_attention")
def _(k: Any, device: str) -> None:
    q, key, v = (normal(2, length, 32, device=device) for length in (70, 45, 45))
    close(k.attention(q, key, v), F.scaled_dot_product_attention(q.double(), key.double(), v.double()), 5e-6)


@checks("triton_causal_two_loops")
def _(k: Any, device: str) -> None:
    q, key, v = (normal(2, 150, 32, device=device) for _ in range(3))
    want = F.scaled_dot_product_attention(q.double(), key.double(), v.double(), is_causal=True)
    close(k.causal_attention(q, key, v), want, 5e-6)


@checks("triton_residual_layer_norm")
def _(k: Any, device: str) -> None:
    x, residual, gain, bias = (normal(*shape, device=device) for shape in ((7, 100), (7, 100), (100,), (100,)))
    x += 30
    summed, y = k.add_norm(x, residual, gain, bias)
    close(summed, x.double() + residual.double())
    close(y, F.silu(F.layer_norm(summed.double(), (100,), gain.double(), bias.double())), 1e-5)


@checks("triton_group_norm_split_statistics")
def _(k: Any, device: str) -> None:
    for height in (9, 1):  # pieces of the smaller one are empty
        x, gain, bias = normal(1, 4, height, 7, device=device, offset=20), normal(4, device=device), normal(4, device=device)
        want = F.group_norm(x.double(), 2, gain.double(), bias.double()).relu()
        close(k.group_norm_relu(x, 2, gain, bias, pieces=4 if height > 1 else 16, block=32), want, 2e-5)


@checks("triton_cross_entropy_one_pass")
def _(k: Any, device: str) -> None:
    logits, target = normal(9, 1000, device=device) * 5, torch.randint(1000, (9,), device=device)
    target[3] = -100
    close(k.cross_entropy(logits, target, block=256), F.cross_entropy(logits.double(), target))


@checks("triton_scan_with_carry")
def _(k: Any, device: str) -> None:
    x = normal(3, 700, device=device)
    want = x.double().cumsum(1)
    close(k.cumsum(x, block=256), want, 5e-6)
    close(k.cumsum(x, exclusive=True, block=256), want - x.double(), 5e-6)


@checks("triton_two_stage_reduction")
def _(k: Any, device: str) -> None:
    x = normal(2, 5003, device=device)
    close(k.row_norms(x, pieces=8, block=128), x.double().norm(dim=1))
    close(k.row_norms(x[:, :3].contiguous(), pieces=8, block=128), x[:, :3].double().norm(dim=1))


@checks("triton_outer_dim_reduction")
def _(k: Any, device: str) -> None:
    x = normal(3, 37, 70, device=device, offset=-9)
    assert torch.equal(k.amax_middle(x), x.amax(1))


@checks("triton_argmax_lanes")
def _(k: Any, device: str) -> None:
    x = torch.randint(-9, -3, (6, 700), device=device).float()
    x[4, 600], x[5] = 5.0, float("-inf")
    assert torch.equal(k.argmax(x, block=128), x.argmax(1))


@checks("triton_embedding_tile")
def _(k: Any, device: str) -> None:
    index, table, places = (
        torch.randint(50, (3, 7), device=device),
        normal(50, 150, device=device),
        normal(7, 150, device=device),
    )
    close(k.embedding(index, table, places), table.double()[index] * 150**0.5 + places.double())


@checks("triton_implicit_gemm_conv")
def _(k: Any, device: str) -> None:
    for stride, pad, size in ((1, 1, 3), (2, 0, 2), (3, 2, 5)):
        x, w, bias = normal(2, 3, 9, 11, device=device), normal(5, 3, size, size, device=device), normal(5, device=device)
        want = F.conv2d(x.double(), w.double(), bias.double(), stride, pad).relu()
        close(k.conv2d_relu(x, w, bias, stride, pad), want, 5e-6)


@checks("triton_window_pool")
def _(k: Any, device: str) -> None:
    x = normal(2, 3, 13, 18, device=device)
    for size, stride, pad, count_pad in ((3, 2, 1, True), (2, 2, 0, True), (3, 1, 1, False)):
        want = F.avg_pool2d(x.double(), size, stride, pad, count_include_pad=count_pad)
        close(k.avg_pool2d(x, size, stride, pad, count_pad), want)


@checks("triton_lstm_gates_fused")
def _(k: Any, device: str) -> None:
    layer = torch.nn.LSTM(7, 11, batch_first=True).to(device)
    x = normal(3, 5, 7, device=device)
    with torch.no_grad():
        out, h, c = k.lstm(x, layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        want, (h_want, c_want) = layer.double()(x.double())
    close(out, want, 5e-6)
    close(h, h_want[0], 5e-6)
    close(c, c_want[0], 5e-6)


@checks("triton_persistent_rows")
def _(k: Any, device: str) -> None:
    x, gain = normal(11, 100, device=device), normal(100, device=device)
    close(k.rms_norm(x, gain, programs=4), F.rms_norm(x.double(), (100,), gain.double(), 1e-6))


@checks("cuda_float4_grid_stride")
def _(k: Any, device: str) -> None:
    for n in (1, 1003):
        x, gate = normal(n, device=device) * 5, normal(n, device=device)
        k.silu_gate(2, 64, x, gate, y := torch.empty_like(x), n)
        close(y, F.silu(x.double()) * gate.double())


@checks("cuda_warp_per_row_shuffle")
def _(k: Any, device: str) -> None:
    for columns in (1, 77, 1024):
        x = normal(11, columns, device=device) * 9
        k.softmax_warp(2, 256, x, y := torch.empty_like(x), 11, columns)
        close(y, x.double().softmax(1))


@checks("cuda_block_reduce_row")
def _(k: Any, device: str) -> None:
    x, residual, gain = normal(5, 700, device=device), normal(5, 700, device=device), normal(700, device=device)
    total, y = torch.empty_like(x), torch.empty_like(x)
    k.add_rms_norm(5, 256, x, residual, gain, total, y, 700, 1e-6, shared=2800)
    close(total, x.double() + residual.double())
    close(y, F.rms_norm(x.double() + residual.double(), (700,), gain.double(), 1e-6))


@checks("cuda_register_tile_matmul")
def _(k: Any, device: str) -> None:
    a, b = normal(70, 45, device=device), normal(45, 131, device=device)
    k.matmul((3, 2), 256, a, b, c := a.new_empty(70, 131), 70, 131, 45)
    close(c, a.double() @ b.double(), 5e-6)


@checks("cuda_padded_tile_transpose")
def _(k: Any, device: str) -> None:
    x = normal(3, 37, 70, device=device)
    k.transpose((3, 2, 3), (32, 8), x, y := x.new_empty(3, 70, 37), 37, 70)
    assert torch.equal(y, x.transpose(1, 2))


@checks("cuda_async_copy_double_buffer")
def _(k: Any, device: str) -> None:
    for depth in (8, 16, 76):
        a, b = normal(70, depth, device=device), normal(depth, 132, device=device)
        k.matmul_async((3, 2), 256, a, b, c := a.new_empty(70, 132), 70, 132, depth)
        close(c, a.double() @ b.double(), 5e-6)


@checks("cuda_mma_split_tf32")
def _(k: Any, device: str) -> None:
    a, b = normal(70, 45, device=device), normal(45, 51, device=device)
    k.matmul_mma((2, 2), 128, a, b, c := a.new_empty(70, 51), 70, 51, 45)
    close(c, a.double() @ b.double(), 5e-6)


@checks("cuda_last_block_combines")
def _(k: Any, device: str) -> None:
    work, counter = torch.empty(5, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    for n in (3000, 7):
        x, target, result = normal(n, device=device), normal(n, device=device), torch.empty((), device=device)
        k.mse(5, 256, x, target, work, counter, result, n)
        close(result, F.mse_loss(x.double(), target.double()))


@checks("cuda_block_scan")
def _(k: Any, device: str) -> None:
    for columns in (5, 1100):
        x = normal(3, columns, device=device)
        y, before = torch.empty_like(x), torch.empty_like(x)
        k.scan_rows(3, 128, x, y, columns, False)
        k.scan_rows(3, 128, x, before, columns, True)
        want = x.double().cumsum(1)
        close(y, want, 5e-6)
        close(before, want - x.double(), 5e-6)


@checks("cuda_online_softmax_pairs")
def _(k: Any, device: str) -> None:
    for columns in (3, 900):
        x = normal(3, columns, device=device) * 9
        x[1, : columns - 2] = float("-inf")
        k.softmax_block(3, 128, x, y := torch.empty_like(x), columns)
        close(y, x.double().softmax(1))


@checks("cuda_conv_halo_tile")
def _(k: Any, device: str) -> None:
    for pad in (0, 1, 3):
        x, weight, bias = normal(2, 3, 11, 37, device=device), normal(3, 1, 3, 3, device=device), normal(3, device=device)
        want = F.conv2d(x.double(), weight.double(), bias.double(), padding=pad, groups=3).relu()
        y = torch.empty(want.shape, device=device)
        k.depthwise((2, 3, 4), (32, 8), x, weight, bias, y, 6, 3, 11, 37, pad)
        close(y, want)


@checks("cuda_independent_loads_per_thread")
def _(k: Any, device: str) -> None:
    w, x = normal(43, 300, device=device), normal(300, device=device)
    k.gemv(2, 256, w, x, y := x.new_empty(43), 43, 300)
    close(y, w.double() @ x.double(), 5e-6)


@checks("cuda_plane_index_from_grid")
def _(k: Any, device: str) -> None:
    x, residual = normal(3, 5, 36, device=device, offset=9), normal(3, 5, 36, device=device)
    mean, variance, gain, bias = (
        normal(5, device=device, offset=9),
        normal(5, device=device).square(),
        *normal(2, 5, device=device),
    )
    k.bn_relu_add((1, 7), 64, x, residual, mean, variance, gain, bias, y := torch.empty_like(x), 15, 5, 36, 1e-5)
    want = F.batch_norm(x.double(), mean.double(), variance.double(), gain.double(), bias.double()).relu()
    close(y, want + residual.double())


@checks("cuda_shared_histogram")
def _(k: Any, device: str) -> None:
    index = torch.randint(-2, 39, (5000,), device=device)
    counts = torch.zeros(37, dtype=torch.int32, device=device)
    k.histogram(3, 128, index, counts, 5000, 37, shared=37 * 4)
    assert torch.equal(counts.long(), index[(index >= 0) & (index < 37)].bincount(minlength=37))


@checks("cuda_persistent_small_weights")
def _(k: Any, device: str) -> None:
    for width, out in ((32, 70), (5, 3)):
        x, w, b = normal(100, width, device=device), normal(out, width, device=device), normal(out, device=device)
        k.small_linear(3, 128, x, w, b, y := x.new_empty(100, out), 100, width, out, shared=(width + 1) * out * 4)
        close(y, F.linear(x.double(), w.double(), b.double()).relu(), 5e-6)


@checks("cuda_embedding_bag_warp")
def _(k: Any, device: str) -> None:
    for width, length in ((4, 3), (260, 70)):
        table, index = normal(50, width, device=device), torch.randint(50, (11, length), device=device)
        k.bag_sum(2, 256, table, index, y := table.new_empty(11, width), 11, length, width)
        close(y, table.double()[index].sum(1))


def test_every_language_has_its_cards() -> None:
    assert len(CARDS) >= 48 and len(CARDS) == len(list(FOLDER.rglob("*.toml")))  # by name, so none is there twice
    count = Counter(language for card in CARDS.values() for language in card.languages)
    assert count["cpp"] >= 18 and count["triton"] >= 15 and count["cuda"] >= 12


def test_cards_are_proposed_and_say_where_they_come_from() -> None:
    for name, card in CARDS.items():
        assert card.state is SkillState.PROPOSED and card.version == 1 and not card.reason
        assert card.provenance.origin == "starter" and card.provenance.source == name


@pytest.mark.parametrize("name", CARDS)
def test_a_card_lies_in_its_folder_and_is_complete(name: str) -> None:
    card = CARDS[name]
    folder = next(FOLDER.rglob(f"{name}.toml")).parent.name
    if folder != "general":
        assert card.languages == (folder,) and card.devices == ("cpu" if folder == "cpp" else "cuda",)
        assert kind(card) == folder
    else:
        assert len(card.languages) > 1 and ("cpu" in card.devices) == ("cpp" in card.languages)
    assert card.scope == "general" or card.scope.removeprefix("family/") in FAMILIES
    assert 3 <= len(card.tags) <= 6 and 3 <= len(card.failures) <= 6
    assert card.intent.endswith(".") and 3 <= card.technique.count("\n- ") + 1 <= 8
    for condition, text in card.conditions.items():
        assert text == NOTHING_MORE or (len(text.split()) >= 5 and text.endswith(".")), condition
    assert not re.search(r"\d(x|\s*%|\s+times)\s+(faster|quicker|slower)|speedup of", card.effect), "a number nobody measured"


def test_no_two_cards_teach_the_same() -> None:
    words = {name: set(re.findall(r"[a-z]{4,}", f"{card.intent} {card.technique}".lower())) for name, card in CARDS.items()}
    alike = {
        (one, other): len(words[one] & words[other]) / len(words[one] | words[other])
        for one, other in itertools.combinations(CARDS, 2)
    }
    closest = max(alike, key=lambda pair: alike[pair])
    assert alike[closest] < 0.4, (closest, alike[closest])


def test_every_example_is_checked() -> None:
    assert set(CHECKS) == set(CARDS)


NEEDED = {
    r"\bu?int\d+_t\b|\buintptr_t\b": "cstdint",
    r"std::(min|max|fill|swap|max_element)\b": "algorithm",
    r"std::(exp|sqrt|floor|fabs|copysign|tanh|log|fma)\b|\bINFINITY\b": "cmath",
    r"\bmem(cpy|set)\b": "cstring",
    r"std::vector\b": "vector",
    r"std::pair\b": "utility",
    r"\bomp_get_": "omp.h",
    r"\b_mm": "immintrin.h",
}


@pytest.mark.parametrize("name", names("cpp"))
def test_a_cpp_example_includes_what_it_uses(name: str) -> None:
    """Built together below, one example could live on another's headers."""
    text = CARDS[name].example
    for use, header in NEEDED.items():
        assert bool(re.search(use, text)) == (f"#include <{header}>" in text), header


@pytest.fixture(scope="module")
def interpreter() -> Iterator[subprocess.Popen[str] | None]:
    """The process that interprets Triton, at work while the compiler is."""
    if importlib.util.find_spec("triton") is None:
        yield None
        return
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


BUILDS_HERE = [name for name in names("cpp") if platform.machine() == "x86_64" or "immintrin.h" not in CARDS[name].example]
"""Some examples speak to one make of processor."""


@pytest.fixture(scope="module")
def libraries(interpreter: object) -> dict[str, Any]:
    """All C++ examples, each in a name space of its own, in two builds side by side."""

    def build(some: list[str]) -> Any:
        lines = {name: CARDS[name].example.splitlines() for name in some}
        headers = sorted({line for text in lines.values() for line in text if line.startswith("#include")})
        bodies = ["\n".join(line for line in text if not line.startswith("#include")) for text in lines.values()]
        spaces = [f"namespace {name} {{\n{body}\n}}" for name, body in zip(lines, bodies)]
        return cpp("\n".join([*headers, *spaces]), flags=["-O1"])  # the flags as they are: test_every_cpp_example_builds_alone

    everything = BUILDS_HERE
    halves = [everything[::2], everything[1::2]]
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(build, halves))
    return {name: library for half, library in zip(halves, built) for name in half}


@pytest.mark.parametrize("name", BUILDS_HERE)
def test_a_cpp_example_is_right(name: str, libraries: dict[str, Any]) -> None:
    run_check(name, libraries[name], "cpu")


@pytest.mark.slow
def test_every_cpp_example_builds_alone() -> None:
    with ThreadPoolExecutor(2) as pool:
        for name, library in zip(BUILDS_HERE, pool.map(lambda name: cpp(CARDS[name].example), BUILDS_HERE)):
            run_check(name, library, "cpu")


@pytest.mark.parametrize("name", names("module"))
def test_a_module_is_right(name: str, tmp_path: Path) -> None:
    run_check(name, import_text(CARDS[name].example, name, tmp_path), "cpu")


def test_a_check_catches_the_mistake_its_card_warns_of() -> None:
    name = "softmax_one_exp_per_element"
    assert MUTANTS[name][0] in CARDS[name].example
    with pytest.raises(AssertionError):
        run_check(name, cpp(CARDS[name].example.replace(*MUTANTS[name]), flags=["-O1"]), "cpu")


@pytest.mark.parametrize("name", names("triton", "module"))
def test_a_python_example_parses(name: str) -> None:
    tree = ast.parse(CARDS[name].example)
    jitted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert bool(jitted) == (kind(CARDS[name]) == "triton")


def interpret() -> dict[str, str]:
    """What is wrong with each Triton example, in a process where Triton interprets; nothing for those that are right."""
    with tempfile.TemporaryDirectory() as folder:
        faults = {name: _fault(name, CARDS[name].example, Path(folder)) for name in names("triton")}
        mutant = "triton_neutral_mask_values"
        faults["mutant"] = _fault(mutant, CARDS[mutant].example.replace(*MUTANTS[mutant]), Path(folder))
    return faults


def _fault(name: str, text: str, folder: Path) -> str:
    try:
        run_check(name, import_text(text, name, folder), "cpu")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture(scope="module")
def interpreted(interpreter: subprocess.Popen[str] | None) -> dict[str, str]:
    if interpreter is None:
        pytest.skip("Triton is not installed")
    said, complaints = interpreter.communicate()
    assert interpreter.returncode == 0, complaints[-2000:]
    faults: dict[str, str] = json.loads(said.splitlines()[-1])
    return faults


@pytest.mark.parametrize("name", names("triton"))
def test_a_triton_example_is_right_in_the_interpreter(name: str, interpreted: dict[str, str]) -> None:
    assert interpreted[name] == ""


def test_the_interpreted_check_catches_the_mistake_its_card_warns_of(interpreted: dict[str, str]) -> None:
    assert interpreted["mutant"].startswith("AssertionError")


@pytest.mark.gpu
@pytest.mark.parametrize("name", names("triton"))
def test_a_triton_example_is_right_on_a_gpu(name: str, tmp_path: Path) -> None:
    run_check(name, import_text(CARDS[name].example, name, tmp_path), "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("name", names("cuda"))
def test_a_cuda_example_is_right(name: str) -> None:
    run_check(name, cuda(CARDS[name].example), "cuda")


if __name__ == "__main__":
    print(json.dumps(interpret()))
