"""What a comparison of a whole output does not show: faint slices, and typical elements beside a few that are quite wrong."""

from __future__ import annotations

import pytest
import torch

from bottega.judge import faint_slices
from bottega.judge.faint_slices import FaintSlices
from bottega.judge.tolerance import tolerance
from bottega.judge.typical_error import TypicalError

FP32 = tolerance("float32", "fp32")


def problem(got: torch.Tensor, truth: torch.Tensor, reference: torch.Tensor | None = None) -> str:
    slices = FaintSlices(truth.shape)
    slices.feed_all(got, truth.float() if reference is None else reference, truth)
    return slices.problem(float(truth.square().mean().sqrt()), FP32)


@pytest.mark.parametrize("piece", [1 << 22, 1000])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_faint_slice_that_is_left_out_is_seen(axis: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faint_slices, "PIECE", piece)
    truth = torch.randn(9, 10, 64, dtype=torch.float64)
    truth.select(axis, 5).mul_(1e-4)
    assert problem(truth.float(), truth) == ""
    wrong = truth.float()
    wrong.select(axis, 5).zero_()
    assert "[" + ", ".join("5" if each == axis else ":" for each in range(3)) + "]" in problem(wrong, truth)


def test_parts_of_the_batch_are_put_together() -> None:
    truth = torch.randn(40, 64, dtype=torch.float64)
    truth[33] *= 1e-4
    wrong = truth.float()
    wrong[33] = 0
    slices = FaintSlices(truth.shape)
    for first in range(0, 40, 16):
        rows = slice(first, first + 16)
        slices.feed_all(wrong[rows], truth.float()[rows], truth[rows], first)
    assert "[33, :]" in slices.problem(1.0, FP32)


def test_what_rounding_beside_large_numbers_does_is_right() -> None:
    truth = torch.randn(64, 64, dtype=torch.float64)
    truth[5] *= 1e-10
    assert problem((truth + 1e-7 * torch.randn(64, 64)).float(), truth) == ""
    truth[5] *= 1e6
    off = truth.clone()
    off[5] *= 1.1
    assert problem(off.float(), truth) and not problem(off.float(), truth, off.float()), "the reference is as far off"


def test_a_giant_row_tells_nothing_of_a_column_in_which_it_is_faint_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, limit = torch.randn(512, 2304, dtype=torch.float64), tolerance("bfloat16", "fp32")
    truth[5] *= 1e4
    size = truth.square().mean(1, keepdim=True).sqrt()

    def found() -> str:
        """Two roundings of the products that a row is made of, as large as bfloat16's."""
        got, reference = (truth + 0.004 * size * torch.randn_like(truth) for _ in range(2))
        slices = FaintSlices(truth.shape)
        slices.feed_all(got, reference, truth)
        return slices.problem(float(truth.square().mean().sqrt()), limit)

    assert not any(found() for _ in range(8))
    monkeypatch.setattr(faint_slices, "FEWEST_FELT", 0)
    assert any(found() for _ in range(8)), "a column with one element"


def test_one_error_that_is_larger_than_all_others_hides_none() -> None:
    """As large as one element may be off by, in a slice that is left out."""
    truth = torch.randn(64, 2, dtype=torch.float64)
    truth[:, 1] *= 2e-5
    wrong = truth.float()
    wrong[:, 1] = 0
    wrong[0, 1] = 2e-4
    assert "[:, 1]" in problem(wrong, truth)


def test_outputs_without_slices_are_right() -> None:
    for shape in ((), (1,), (5,), (0, 4), (3, 4)):
        truth = torch.randn(shape, dtype=torch.float64)
        assert problem(truth.float(), truth) == ""
    slices, numbers = FaintSlices(torch.Size((64, 64))), torch.ones(64, 64, dtype=torch.int64)
    slices.feed_all(0 * numbers, numbers, numbers)
    assert slices.problem(1.0, FP32) == ""


def test_a_few_elements_that_are_quite_wrong_excuse_no_lower_precision() -> None:
    truth = torch.randn(4096, 64, dtype=torch.float64)
    reference = truth.float()
    reference[::100] = torch.randn(41, 64)
    for got, right in (
        (reference.roll(1, 0).where(torch.arange(4096)[:, None] % 100 == 1, truth.float()), True),
        (reference * 1.01, False),
    ):
        typical = TypicalError()
        typical.feed_all(got, reference, truth)
        assert (typical.problem(1.0, FP32) == "") == right
