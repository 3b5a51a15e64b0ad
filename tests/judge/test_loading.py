"""Parameters are loaded strictly, or not at all with the difference in words; precision is what the user allowed."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from bottega.judge.loading import autocast, load_state, set_precision


def state_of(module: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    return buffer.getvalue()


def test_the_same_names_are_loaded() -> None:
    wanted, own = nn.Linear(3, 4), nn.Linear(3, 4)
    assert load_state(own, state_of(wanted), False) == ""
    assert torch.equal(own.weight, wanted.weight)


def test_buffers_are_loaded_too() -> None:
    wanted, own = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    wanted.running_mean.fill_(3.0)
    assert load_state(own, state_of(wanted), False) == ""
    assert own.running_mean.tolist() == [3.0] * 4


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 3))
        self.shift = nn.Parameter(torch.zeros(4))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (nn.Linear(3, 4, bias=False), ["lacks bias"]),
        (nn.Linear(3, 5), ["has other shapes for bias, weight"]),
        (Renamed(), ["lacks bias", "adds shift"]),
        (nn.ReLU(), ["lacks bias, weight"]),
    ],
)
def test_other_names_or_shapes_leave_the_module_as_it_was(own: nn.Module, words: list[str]) -> None:
    before = {name: value.clone() for name, value in own.state_dict().items()}
    told = load_state(own, state_of(nn.Linear(3, 4)), False)
    for word in words:
        assert word in told
    assert all(torch.equal(value, before[name]) for name, value in own.state_dict().items())


def test_what_a_module_has_beside_the_reference_stays_as_it_was_built() -> None:
    own = nn.Linear(3, 4)
    own.register_buffer("packed", torch.full((2,), 7.0))
    wanted = nn.Linear(3, 4)
    assert load_state(own, state_of(wanted), False) == ""
    assert torch.equal(own.bias, wanted.bias)
    assert own.packed.tolist() == [7.0, 7.0]


def test_other_names_with_the_same_shapes_are_loaded_by_order_where_that_is_wanted() -> None:
    own, wanted = Renamed(), nn.Linear(3, 4)
    assert load_state(own, state_of(wanted), True) == ""
    assert torch.equal(own.weight, wanted.weight)
    assert torch.equal(own.shift, wanted.bias)
    assert "has other shapes" in load_state(nn.Linear(4, 3), state_of(wanted), True)


def test_precision_flags_follow_the_user() -> None:
    kept = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        set_precision("tf32")
        assert torch.get_float32_matmul_precision() == "high"
        set_precision("fp32")
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(kept[0])
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = kept[1:]


def test_autocast_gives_the_baseline_the_same_right() -> None:
    matrix = torch.randn(4, 4)
    with autocast("cpu", "bf16"):
        assert (matrix @ matrix).dtype == torch.bfloat16
    with autocast("cpu", "fp32"):
        assert (matrix @ matrix).dtype == torch.float32
