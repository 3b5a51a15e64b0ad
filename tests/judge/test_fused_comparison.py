"""The fused comparison on a GPU says what the torch operators say, on numbers of every kind."""

from __future__ import annotations

import pytest
import torch

from bottega.judge import output_comparison
from bottega.judge.output_comparison import OutputComparison

pytestmark = pytest.mark.gpu
ODD = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-30, 1e30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("size", [1, 255, 4097, (1 << 22) + 5])
@pytest.mark.parametrize("odd", [False, True])
def test_one_pass_says_what_torch_says(dtype: torch.dtype, size: int, odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(size)
    truth = torch.randn(size, dtype=torch.float64, device="cuda")
    reference = truth.to(dtype)
    got = (truth * (1 + 1e-3 * torch.randn_like(truth))).to(dtype)
    if odd:
        for tensor in (truth, reference, got):
            places = torch.randint(0, size, (len(ODD),), device="cuda")
            tensor[places] = torch.tensor(ODD, dtype=torch.float64, device="cuda").to(tensor.dtype)

    def compared(fused: bool) -> OutputComparison:
        monkeypatch.setattr(output_comparison, "can_fuse", lambda *tensors: fused)
        comparison = OutputComparison(str(dtype).removeprefix("torch."), "fp32", 0.5)
        comparison.feed_all(got, reference, truth)
        comparison.settle()
        return comparison

    one, two = compared(True), compared(False)
    for name in ("elements", "foreign_nonfinite", "problem"):
        assert getattr(one, name) == getattr(two, name), name
    for name in ("truth_square", "got_square_error", "reference_square_error", "got_worst", "reference_worst"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-9), name
    if one.foreign_nonfinite:
        assert one.first_bad == two.first_bad
        assert str(one.worst_pair) == str(two.worst_pair)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_size_of_a_tensor_counts_its_finite_elements(dtype: torch.dtype) -> None:
    values = torch.randn(100_000, device="cuda").to(dtype)
    whole = output_comparison.root_mean_square(values)
    assert whole == pytest.approx(float(values.double().square().mean().sqrt()), rel=1e-9)
    values[7] = float("inf")
    assert output_comparison.root_mean_square(values) == pytest.approx(whole, rel=1e-3)
