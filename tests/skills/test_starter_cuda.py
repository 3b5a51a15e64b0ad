"""The CUDA examples of the starter cards, one check for each against torch, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from starter_examples import CARDS, CHECKS, checks, close, names, normal, run_check

from bottega.runtime import cuda

pytestmark = pytest.mark.rotates


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


def test_every_cuda_example_is_checked() -> None:
    assert set(names("cuda")) <= set(CHECKS)


@pytest.mark.gpu
@pytest.mark.parametrize("name", names("cuda"))
def test_a_cuda_example_is_right(name: str) -> None:
    run_check(name, cuda(CARDS[name].example), "cuda")
