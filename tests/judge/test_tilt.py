"""Numbers that a lower precision rounds all to the same side."""

from __future__ import annotations

import pytest
import torch

from bottega.judge.tilt import tilt


def tf32(values: torch.Tensor) -> torch.Tensor:
    """To the nearest, as tensor cores are given it."""
    return ((values.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


@pytest.mark.parametrize("up", [True, False])
def test_what_is_lost_by_rounding_has_one_sign(up: bool) -> None:
    values = torch.randn(512, 300) * torch.logspace(-6, 6, 512)[:, None]
    before = values.clone()
    tilt(values, up)
    assert (values.abs() <= before.abs()).all(), "none is larger, where the task may have no answer"
    assert (values.abs() > 0.99 * before.abs()).all()
    assert torch.equal(values.sign(), before.sign())
    for rounded in (tf32(values), values.bfloat16().float()):
        off = (rounded.abs() - values.abs()) / values.abs()
        assert ((off < 0) if up else (off > 0)).all()
        assert off.abs().mean() > 1e-4
    assert len(torch.unique(values)) > 0.8 * values.numel(), "and they stay as different as they were"


def test_zeros_and_what_is_no_number_stay() -> None:
    values = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-40])
    before = values.clone()
    tilt(values, True)
    assert torch.equal(values.view(torch.int32), before.view(torch.int32))
    for other in (torch.ones(4, dtype=torch.bfloat16), torch.ones(4, dtype=torch.float64), torch.arange(4), torch.ones(0)):
        kept = other.clone()
        tilt(other, True)
        assert torch.equal(other, kept)


def test_a_layout_of_its_own_is_kept() -> None:
    values = torch.randn(4, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    before = values.clone()
    tilt(values, True)
    assert (values != before).all() and (values - before).abs().max() < 0.1
