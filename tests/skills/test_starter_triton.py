"""The Triton examples of the starter cards, one check for each against torch: in the interpreter of a second process, and on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from starter_examples import CARDS, CHECKS, checks, close, due, import_text, names, normal, run_check

pytestmark = pytest.mark.rotates

MUTANT = "triton_neutral_mask_values"
MISTAKE = ("tl.where(inside, values - mean, 0.0)", "values - mean")
"""An example, and a mistake that its own card warns of."""


@checks("int64_offsets")
def _(k: Any, device: str) -> None:
    x, factors = normal(5, 70, device=device), normal(5, device=device)
    close(k.scale(x, factors, block=32), x.double() * factors.double()[:, None])


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


def test_every_triton_example_is_checked() -> None:
    assert set(names("triton")) <= set(CHECKS)


def interpret(some: list[str]) -> dict[str, str]:
    """What is wrong with each of these examples, in a process where Triton interprets; nothing for those that are right."""
    with tempfile.TemporaryDirectory() as folder:
        faults = {name: _fault(name, CARDS[name].example, Path(folder)) for name in some}
        faults["mutant"] = _fault(MUTANT, CARDS[MUTANT].example.replace(*MISTAKE), Path(folder))
    return faults


def _fault(name: str, text: str, folder: Path) -> str:
    try:
        run_check(name, import_text(text, name, folder), "cpu")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest) -> dict[str, str]:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *due(request, test_a_triton_example_is_right_in_the_interpreter)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    faults: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
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


if __name__ == "__main__":
    print(json.dumps(interpret(sys.argv[1:])))
