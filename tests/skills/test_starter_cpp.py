"""The C++ examples of the starter cards are run: a wrong one would be copied into every kernel it inspires.

One check for each, against torch in double precision and at sizes that divide by nothing; built together because that is quicker.
"""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from starter_examples import CARDS, CHECKS, checks, close, due, names, normal, run_check

from bottega.runtime import cpp

pytestmark = pytest.mark.rotates

MUTANT = "softmax_one_exp_per_element"
MISTAKE = ("here == -INFINITY ? 0.f : here", "here")
"""An example, and a mistake that its own card warns of."""
BUILDS_HERE = [name for name in names("cpp") if platform.machine() == "x86_64" or "immintrin.h" not in CARDS[name].example]
"""Some examples speak to one make of processor."""


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


def test_every_cpp_example_is_checked() -> None:
    assert set(names("cpp")) <= set(CHECKS)


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Any:
    """The C++ examples of the cases that run, each in a name space of its own, in one build."""
    lines = {name: CARDS[name].example.splitlines() for name in due(request, test_a_cpp_example_is_right)}
    headers = sorted({line for text in lines.values() for line in text if line.startswith("#include")})
    bodies = ["\n".join(line for line in text if not line.startswith("#include")) for text in lines.values()]
    spaces = [f"namespace {name} {{\n{body}\n}}" for name, body in zip(lines, bodies)]
    return cpp("\n".join([*headers, *spaces]), flags=["-O1"])  # the flags as they are: test_every_cpp_example_builds_alone


@pytest.mark.parametrize("name", BUILDS_HERE)
def test_a_cpp_example_is_right(name: str, library: Any) -> None:
    run_check(name, library, "cpu")


@pytest.mark.slow
def test_every_cpp_example_builds_alone() -> None:
    with ThreadPoolExecutor(2) as pool:
        for name, library in zip(BUILDS_HERE, pool.map(lambda name: cpp(CARDS[name].example), BUILDS_HERE)):
            run_check(name, library, "cpu")


def test_a_check_catches_the_mistake_its_card_warns_of() -> None:
    assert MISTAKE[0] in CARDS[MUTANT].example
    with pytest.raises(AssertionError):
        run_check(MUTANT, cpp(CARDS[MUTANT].example.replace(*MISTAKE), flags=["-O1"]), "cpu")
