"""Right and wrong by dtype: another order of summation passes, a lower precision does not; NaN, integers, zeros, complex."""

from __future__ import annotations

import math

import pytest
import torch

from bottega.judge import output_comparison
from bottega.judge.output_comparison import (
    OutputComparison,
    WrongElements,
    index_text,
    nonfinite_elements,
    pattern,
    root_mean_square,
)
from bottega.judge.tensor_transport import dtype_name


def compared(
    got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, precision: str = "fp32", pieces: int = 1
) -> OutputComparison:
    exact = not (reference.is_floating_point() or reference.is_complex())
    comparison = OutputComparison(dtype_name(reference.dtype), precision, 0.0 if exact else root_mean_square(reference))
    flat = [tensor.reshape(-1) for tensor in (got, reference, truth)]
    start = 0
    for part in zip(*(tensor.chunk(pieces) for tensor in flat)):
        comparison.feed(*part, start)
        start += part[0].numel()
    if not flat[0].numel():
        comparison.feed(*flat)
    return comparison


def operands(size: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(64, size, generator=generator), torch.randn(size, 48, generator=generator)


def rounded_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Ten bits of mantissa are left, rounded to nearest."""
    return ((x.view(torch.int32) + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)


def test_fp32_in_another_order_is_right() -> None:
    a, b = operands(4096)
    reordered = torch.stack([a[:, i::7].float() @ b[i::7] for i in range(7)]).sum(0)
    comparison = compared(reordered, a @ b, a.double() @ b.double())
    assert not torch.equal(reordered, a @ b)
    assert comparison.problem == ""


@pytest.mark.parametrize(
    "lower", [rounded_to_tf32, lambda x: x.bfloat16().float(), lambda x: x.half().float()], ids=["tf32", "bf16", "fp16"]
)
@pytest.mark.parametrize("size", [16, 256, 4096])
def test_lower_precision_operands_are_wrong(lower, size: int) -> None:
    a, b = operands(size)
    comparison = compared(lower(a) @ lower(b), a @ b, a.double() @ b.double())
    assert comparison.problem == "values"


@pytest.mark.parametrize(
    ("precision", "lower"),
    [("tf32", rounded_to_tf32), ("bf16", lambda x: x.bfloat16().float()), ("fp16", lambda x: x.half().float())],
)
def test_lower_precision_is_right_where_the_user_allows_it(precision: str, lower) -> None:
    a, b = operands()
    assert compared(lower(a) @ lower(b), a @ b, a.double() @ b.double(), precision).problem == ""


def test_allowing_tf32_does_not_allow_bf16() -> None:
    a, b = operands()
    assert compared(a.bfloat16().float() @ b.bfloat16().float(), a @ b, a.double() @ b.double(), "tf32").problem == "values"


@pytest.mark.parametrize(
    ("dtype", "fine", "wrong"),
    [
        (torch.float64, 1e-13, 1e-9),
        (torch.float32, 1e-6, 3e-4),
        (torch.float16, 5e-4, 1e-2),
        (torch.bfloat16, 4e-3, 5e-2),
        (torch.complex64, 1e-6, 3e-4),
        (torch.complex128, 1e-13, 1e-9),
    ],
)
def test_tolerance_by_data_type(dtype: torch.dtype, fine: float, wrong: float) -> None:
    generator = torch.Generator().manual_seed(3)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    truth = torch.randn(5000, dtype=wide, generator=generator)
    noise = torch.randn(5000, dtype=wide, generator=generator)
    reference = truth.to(dtype)
    assert compared((truth + fine * noise).to(dtype), reference, truth).problem == ""
    assert compared((truth + wrong * noise).to(dtype), reference, truth).problem == "values"


def test_fp64_is_held_to_fp64() -> None:
    a, b = (x.double() for x in operands())
    assert compared((a.float() @ b.float()).double(), a @ b, a @ b).problem == "values"
    assert compared((a.float() @ b.float()).double(), a @ b, a @ b, "bf16").problem == "values"


def test_the_reference_sets_the_bar_where_its_own_arithmetic_is_bad() -> None:
    truth = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    off = truth * (1 + 2e-4)
    assert compared((truth * (1 - 4e-4)).float(), off.float(), truth).problem == ""
    assert compared((truth * (1 - 4e-4)).float(), truth.float(), truth).problem == "values"


@pytest.mark.parametrize("pieces", [1, 7])
def test_one_wrong_element_in_many_is_found_with_its_place(pieces: int) -> None:
    truth = torch.randn(300, 100, generator=torch.Generator().manual_seed(2)).double()
    got = truth.float()
    got[123, 45] += 0.5
    comparison = compared(got, truth.float(), truth, pieces=pieces)
    assert comparison.problem == "values"
    assert comparison.worst_at == 12345
    assert comparison.worst_pair == (pytest.approx(float(truth[123, 45])), pytest.approx(float(got[123, 45])))


def test_pieces_add_up_to_the_whole() -> None:
    a, b = operands()
    lower = a.bfloat16().float() @ b
    whole = compared(lower, a @ b, a.double() @ b.double())
    parts = compared(lower, a @ b, a.double() @ b.double(), pieces=9)
    assert parts.elements == whole.elements
    assert parts.got_error == pytest.approx(whole.got_error)
    assert parts.got_worst == pytest.approx(whole.got_worst)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_where_the_truth_is_finite_is_wrong(poison: float) -> None:
    truth = torch.ones(100, dtype=torch.float64)
    got = truth.float()
    got[40] = poison
    comparison = compared(got, truth.float(), truth)
    assert comparison.problem == "nonfinite"
    assert comparison.worst_at == 40


def test_nonfinite_must_be_the_same_kind() -> None:
    nan, inf = float("nan"), float("inf")
    truth = torch.tensor([nan, inf, -inf, 1.0], dtype=torch.float64)
    assert compared(truth.float(), truth.float(), truth).problem == ""
    for got in ([0.0, inf, -inf, 1.0], [nan, -inf, -inf, 1.0], [nan, 3e38, -inf, 1.0], [nan, nan, -inf, 1.0]):
        assert compared(torch.tensor(got), truth.float(), truth).problem == "nonfinite"


def test_overflow_of_the_reference_is_not_held_against_a_candidate() -> None:
    truth = torch.tensor([1.0, 1e300], dtype=torch.float64)
    reference = torch.tensor([1.0, float("inf")])
    assert compared(torch.tensor([1.0, float("inf")]), reference, truth).problem == ""
    assert compared(torch.tensor([1.0, float("nan")]), reference, truth).problem == "nonfinite"
    assert compared(torch.tensor([float("inf"), float("inf")]), reference, truth).problem == "nonfinite"
    assert compared(torch.tensor([1.0, 0.0]), reference, truth).problem == "nonfinite"
    assert compared(torch.tensor([1.0, -3.4e38]), reference, truth).problem == "nonfinite"
    softplus = torch.tensor([1.0, 200.0], dtype=torch.float64)  # its exponential is too large in between
    assert compared(torch.tensor([1.0, 200.0]), reference, softplus).problem == ""
    assert compared(torch.tensor([1.0, 0.0]), reference, softplus).problem == "nonfinite"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_integers_are_exact(dtype: torch.dtype) -> None:
    truth = (torch.arange(1000) % 2).to(dtype)
    got = truth.clone()
    assert compared(got, truth, truth).problem == ""
    got[17] = ~got[17] if dtype is torch.bool else got[17] + 1
    comparison = compared(got, truth, truth)
    assert comparison.problem == "unequal"
    assert comparison.worst_at == 17


def test_large_integers_are_not_rounded() -> None:
    truth = torch.tensor([2**53 + 1, 2**62 + 3])
    assert compared(truth.clone(), truth, truth).problem == ""
    assert compared(truth - 1, truth, truth).problem == "unequal"


def test_ties_that_the_reference_itself_breaks_otherwise_are_forgiven() -> None:
    """The place of a maximum, where fp64 sees a difference that fp32 does not."""
    truth = torch.arange(1000)
    reference, got = truth.clone(), truth.clone()
    reference[[3, 5]] += 1
    got[[3, 5, 8, 9]] += 1
    assert compared(got, reference, truth).problem == ""
    got[10] += 1
    assert compared(got, reference, truth).problem == "unequal"


def test_zero_truth_wants_zeros() -> None:
    zeros = torch.zeros(64, dtype=torch.float64)
    assert compared(zeros.float(), zeros.float(), zeros).problem == ""
    assert compared(zeros.float() + 1e-3, zeros.float(), zeros).problem == "values"
    one_off = zeros.float()
    one_off[9] = 1e-6
    assert compared(one_off, zeros.float(), zeros).problem == "values"


def test_zeros_never_pass_for_small_values() -> None:
    truth = 1e-9 * torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    assert compared(torch.zeros(1000), truth.float(), truth).problem == "values"
    assert compared(truth.float(), truth.float(), truth).problem == ""


def test_a_typical_size_forgives_a_draw_that_cancels() -> None:
    """A scalar that happens to come out near zero is held to its usual size."""
    truth = torch.tensor([1e-7], dtype=torch.float64)
    alone = OutputComparison("float32", "fp32", 1e-7)
    alone.feed(torch.tensor([3e-7]), truth.float(), truth)
    usual = OutputComparison("float32", "fp32", 1.0)
    usual.feed(torch.tensor([3e-7]), truth.float(), truth)
    assert (alone.problem, usual.problem) == ("values", "")


def test_complex_parts_are_both_looked_at() -> None:
    truth = torch.randn(100, dtype=torch.complex128, generator=torch.Generator().manual_seed(6))
    good = truth.to(torch.complex64)
    assert compared(good, good, truth).problem == ""
    assert compared(good.conj().resolve_conj(), good, truth).problem == "values"
    assert compared(good.real.to(torch.complex64), good, truth).problem == "values"


def test_empty_output_is_right() -> None:
    empty = torch.empty(0)
    assert compared(empty, empty, empty.double()).problem == ""
    assert compared(empty.long(), empty.long(), empty.long()).problem == ""


def test_json_of_a_comparison_is_plain() -> None:
    truth = torch.ones(4, dtype=torch.float64)
    assert set(compared(truth.float(), truth.float(), truth).to_json()) == {
        "relative",
        "reference_relative",
        "reference_worst",
        "worst_element",
        "limit",
    }
    assert compared(torch.ones(4).long(), torch.ones(4).long(), truth).to_json()["unequal"] == 0


def test_root_mean_square_skips_what_is_not_finite() -> None:
    assert root_mean_square(torch.tensor([3.0, float("nan"), -3.0, float("inf")])) == 3.0
    assert root_mean_square(torch.empty(0)) == 0.0
    assert root_mean_square(torch.tensor([3 + 4j])) == pytest.approx((25 / 2) ** 0.5)


VALUES = torch.randn(64, 32, generator=torch.Generator().manual_seed(8)) + 0.1


def changed(**slices: float) -> torch.Tensor:
    got = VALUES.clone()
    for name, value in slices.items():
        first, last = (int(part) for part in name[1:].split("_"))
        got.view(-1)[first:last] = value
    return got


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (torch.zeros_like(VALUES), "every element is zero"),
        (torch.full_like(VALUES, float("nan")), "never written"),
        (torch.full_like(VALUES, 2.5), "the same value 2.5"),
        (VALUES * 2, "the right answer times 2"),
        (-VALUES, "the right answer times -1"),
        (VALUES + 3, "the right answer plus 3"),
        (VALUES.reshape(-1).roll(1).reshape(64, 32), "shifted by one"),
        (VALUES.reshape(-1).roll(-1).reshape(64, 32), "shifted by one"),
        (changed(_2000_2048=7.0), "a tail that was not handled"),
        (changed(_2000_2048=0.0), "the wrong ones are zero"),
        (changed(_100_200=7.0), "one contiguous block"),
        (changed(_100_200=7.0), "first at [3, 4], last at [6, 7]"),
        (changed(_5_6=float("nan")), "1 elements are NaN"),
        (VALUES.bfloat16().float(), "lower precision"),
        (VALUES * (1 + 3e-4), "lower precision"),
    ],
)
def test_pattern_says_what_a_person_would_notice(got: torch.Tensor, words: str) -> None:
    assert words in pattern(got, VALUES.double())


def test_pattern_of_odd_outputs() -> None:
    assert pattern(torch.empty(0), torch.empty(0)) == "the output is empty"
    assert "the right answer times 3" in pattern(3 * torch.tensor([[1 + 2j] * 8] * 2), torch.tensor([[1 + 2j] * 8] * 2))
    assert pattern(torch.tensor(4.0), torch.tensor(5.0))
    assert "never written" in pattern(torch.tensor([float("nan")] * 9), torch.tensor([float("nan")] * 8 + [1.0]))
    assert pattern(torch.tensor([True, False, True]), torch.tensor([True, True, True]))


@pytest.mark.parametrize(
    ("flat", "shape", "text"), [(0, (), "[]"), (5, (10,), "[5]"), (12345, (300, 100), "[123, 45]"), (7, (2, 2, 2), "[1, 1, 1]")]
)
def test_index_text(flat: int, shape: tuple[int, ...], text: str) -> None:
    assert index_text(flat, shape) == text


def test_a_mask_with_few_marks_is_not_right_without_them() -> None:
    """Of a million integers ten may be wrong by rounding, but not just those that say something."""
    truth = torch.zeros(1_000_000, dtype=torch.bool)
    truth[::100_000] = True
    nothing = torch.zeros_like(truth)
    assert compared(nothing, truth, truth).problem == "unequal"
    assert compared(~nothing, ~truth, ~truth).problem == "unequal"
    ignored = torch.where(truth.roll(1), 7, -100)
    assert compared(torch.full_like(ignored, -100), ignored, ignored).problem == "unequal"
    everywhere = torch.arange(1_000_000)
    off = everywhere.clone()
    off[[3, 5]] += 1
    assert compared(off, everywhere, everywhere).problem == ""


def test_what_the_fused_kernel_gets_is_contiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel needs a GPU, so a stand-in looks at its operands: a column of a matrix keeps its stride when it is flattened."""
    seen: list[bool] = []

    def stand_in(got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, *_: float) -> list[torch.Tensor]:
        seen.extend(each.is_contiguous() for each in (got, reference, truth))
        return [torch.zeros(1)] * 12

    monkeypatch.setattr(output_comparison, "can_fuse", lambda *_: True)
    monkeypatch.setattr(output_comparison, "fused_row", stand_in)
    column = torch.randn(64, 32)[:, :1]
    OutputComparison("float32", "fp32", 1.0).feed_all(column.clone(), column.clone(), column)
    assert seen == [True, True, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.complex64])
def test_what_is_not_finite_is_counted_or_noticed(dtype: torch.dtype) -> None:
    values = torch.ones(3, 5, dtype=dtype)
    values[0, 0], values[2, 4] = math.inf, math.nan
    assert int(nonfinite_elements(values, counted=True)) == 2
    assert int(nonfinite_elements(values, counted=False)) == 1
    assert int(nonfinite_elements(values[1:2], counted=True)) == int(nonfinite_elements(values[:0], counted=True)) == 0
    assert int(nonfinite_elements(torch.ones(3, dtype=torch.int64), counted=True)) == 0


def wrong_elements(spoiled: int, of_reference: int, elements: int = 4096) -> WrongElements:
    truth = 1 + torch.rand(elements, dtype=torch.float64)
    got, want = truth.float(), truth.float()
    got[:spoiled] *= 1.01
    want[:spoiled] *= 1.0001  # ill-conditioned, and almost right by chance
    want[elements - of_reference :] *= 1.01
    found = WrongElements(3e-4)
    found.feed_all(got, want, truth)
    assert (found.got, found.reference) == (spoiled, of_reference)
    return found


def test_an_ill_conditioned_output_may_have_a_few_more_wrong_elements_than_the_reference_s() -> None:
    assert wrong_elements(0, 0).alike and wrong_elements(8, 0).alike and wrong_elements(40, 20).alike
    assert not wrong_elements(60, 20).alike
    assert not wrong_elements(4096, 4096).alike, "where most is wrong nothing is known"
    assert not wrong_elements(1, 1, elements=1).alike


@pytest.mark.parametrize("left", [float("nan"), 0.0])
def test_elements_that_the_reference_gets_right_are_not_ill_conditioned(left: float) -> None:
    """A tail that a kernel leaves out: seven elements of 4,096, where the reference has others wrong."""
    truth = 1 + torch.rand(4096, dtype=torch.float64)
    want, got = truth.float(), truth.float()
    want[:20] *= 1.01
    got[:20] *= 0.99
    whole, tail = WrongElements(3e-4), WrongElements(3e-4)
    whole.feed_all(got, want, truth)
    got[-7:] = left
    tail.feed_all(got, want, truth)
    assert whole.alike and not tail.alike


def test_what_is_not_finite_is_one_wrong_element() -> None:
    found = WrongElements(3e-4)
    nan, inf = float("nan"), float("inf")
    found.feed_all(torch.tensor([inf, 1.0, nan]), torch.tensor([2.0, inf, nan]), torch.tensor([2.0, 1.0, nan]).double())
    assert (found.got, found.reference) == (1, 1)
    found.feed_all(torch.tensor([1.0, inf]), torch.tensor([nan, inf]), torch.tensor([nan, inf]).double())
    assert (found.got, found.reference) == (2, 1)
