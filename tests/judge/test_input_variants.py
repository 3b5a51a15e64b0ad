"""A variant changes values, keeps what they mean, and shows what a lazy kernel leaves out."""

from __future__ import annotations

import pytest
import torch

from bottega.judge.input_variants import STRONGEST, Strength, apply_variant, strengths, structure
from bottega.judge.variants import OF_LONG_SUMS, PARTS, VARIANTS

BENT = [variant for variant in (*VARIANTS, *OF_LONG_SUMS) if variant not in ("plain", *PARTS)]
WEAKEST = Strength(signed=False, extreme=False)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11))


def symmetric(size: int = 64) -> torch.Tensor:
    values = random(size, size)
    return values + values.t()


def hermitian() -> torch.Tensor:
    values = torch.randn(64, 64, dtype=torch.complex64)
    return values + values.mH


@pytest.mark.parametrize(
    ("name", "tensor", "kind"),
    [
        ("normal", random(64, 64), "free"),
        ("uniform", torch.rand(4, 100), "free"),
        ("lower triangle", random(64, 64).tril(), "sparse"),
        ("upper triangle", random(64, 64).triu(), "sparse"),
        ("after a relu", random(64, 64).relu(), "sparse"),
        ("symmetric", symmetric(), "symmetric"),
        ("batch of symmetric", torch.stack([symmetric(), 2 * symmetric()]), "symmetric"),
        ("probabilities", random(32, 100).softmax(-1), "normalised"),
        ("one-hot", torch.nn.functional.one_hot(torch.arange(100) % 10, 10).float(), "fixed"),
        ("mask", (random(64, 64) > 0).float(), "fixed"),
        ("zeros", torch.zeros(100), "constant"),
        ("sorted", random(8, 100).sort(-1).values, "sorted"),
        ("sorted downwards", random(8, 100).sort(-1, descending=True).values, "sorted"),
        ("infinite", torch.where(random(64, 64) > 0, 0.0, float("-inf")), "fixed"),
        ("behind a mask", random(64, 64).masked_fill(random(64, 64) > 1, float("-inf")), "masked"),
        ("distances, of which some are infinite", symmetric().masked_fill(symmetric() > 2, float("inf")), "fixed"),
        ("no numbers", random(64, 64).masked_fill(random(64, 64) > 1, float("nan")), "masked"),
        ("integers", torch.arange(1000), "fixed"),
        ("booleans", random(1000) > 0, "fixed"),
        ("scalar", torch.tensor(2.0), "constant"),
        ("one value in eight bits", torch.ones(9).to(torch.float8_e5m2), "constant"),
        ("a mask that hides nothing", torch.ones(4, 9, dtype=torch.bool), "constant"),
        ("no mask at all", torch.empty(0, dtype=torch.bool), "fixed"),
        ("empty", torch.empty(0), "fixed"),
        ("complex", torch.randn(100, dtype=torch.complex64), "free"),
        ("complex without imaginary parts", random(100) + 0j, "fixed"),
        ("hermitian", hermitian(), "fixed"),
        ("fp8", random(1000).to(torch.float8_e5m2), "free"),
        ("fp8 in [0, 1)", torch.rand(100, 100).to(torch.float8_e4m3fn), "free"),
        ("labels in fp8", (torch.arange(1000) % 10).to(torch.float8_e4m3fn), "fixed"),
        ("exponents alone", random(1000).abs().to(torch.float8_e8m0fnu), "fixed"),
        ("symmetric in fp8", symmetric().to(torch.float8_e4m3fn), "fixed"),
        ("bf16", random(64, 64).bfloat16(), "free"),
        ("half", random(64, 64).half(), "free"),
    ],
)
def test_structure_is_seen(name: str, tensor: torch.Tensor, kind: str) -> None:
    assert structure(tensor) == kind


@pytest.mark.parametrize("variant", BENT)
@pytest.mark.parametrize("tensor", [random(64, 64).tril(), random(64, 64).relu()], ids=["triangle", "relu"])
def test_zeros_stay_zero(variant: str, tensor: torch.Tensor) -> None:
    bent = tensor.clone()
    apply_variant(bent, structure(tensor), variant)
    assert not bool(bent[tensor == 0].any())
    assert not torch.equal(bent, tensor)


@pytest.mark.parametrize("variant", [*BENT, "concentrated"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64])
def test_eight_bits_and_complex_numbers_are_varied_too(variant: str, dtype: torch.dtype) -> None:
    drawn = torch.rand(64, 200, 2)
    tensor = torch.view_as_complex(drawn) if dtype.is_complex else drawn.to(dtype)
    bent = tensor.clone()
    apply_variant(bent, structure(tensor), variant)
    before, after = ((torch.view_as_real(each) if dtype.is_complex else each).float() for each in (tensor, bent))
    assert bool(after.isfinite().all()) and not torch.equal(before, after)
    if variant not in ("offset", "concentrated") or (not dtype.is_complex and variant == "concentrated"):
        assert 0.3 < float((after < 0).float().mean()) < 0.7


@pytest.mark.parametrize("variant", BENT)
def test_infinities_stay_where_they_are(variant: str) -> None:
    bent = random(64, 64).masked_fill(random(64, 64) > 1, float("-inf"))
    bent[0, 0] = float("inf")
    before = bent.clone()
    apply_variant(bent, structure(bent), variant)
    hidden = before.isinf()
    assert torch.equal(bent[hidden], before[hidden]) and bool(bent[~hidden].isfinite().all())
    assert not torch.equal(bent, before)


@pytest.mark.parametrize("variant", BENT)
def test_what_is_missing_stays_missing(variant: str) -> None:
    drawn = torch.rand(64, 64).masked_fill(random(64, 64) > 1, float("nan"))
    apply_variant(varied := drawn.clone(), structure(drawn), variant)
    assert torch.equal(varied.isnan(), drawn.isnan()) and bool(varied[~varied.isnan()].isfinite().all())
    assert not torch.equal(varied.nan_to_num(), drawn.nan_to_num())


@pytest.mark.parametrize("variant", BENT)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(500,), (8, 100)])
def test_sorted_is_sorted_again(variant: str, descending: bool, shape: tuple[int, ...]) -> None:
    drawn = torch.rand(shape).sort(-1, descending=descending).values
    apply_variant(varied := drawn.clone(), "sorted", variant)
    steps = varied.diff(dim=-1)
    assert bool((steps <= 0).all() if descending else (steps >= 0).all()) and not torch.equal(varied, drawn)
    apply_variant(kept := drawn.clone(), "sorted", variant, strengths(variant)[1])
    assert torch.equal(kept, drawn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tensor", [random(32, 4, 300).softmax(-1), random(300, 50).softmax(0).t(), random(5000).softmax(-1)])
@pytest.mark.parametrize("variant", [variant for variant in BENT if variant != "mixed"])
def test_probabilities_are_probabilities_again(variant: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    before = tensor.to(dtype)
    bent = before.clone()
    apply_variant(bent, structure(before), variant)
    assert bool((bent >= 0).all()) and not torch.equal(bent, before)
    assert float((bent.double().sum(-1) - 1).abs().max()) < (1e-5 if dtype is torch.float32 else 2e-2)
    assert bool((bent == 0).any()) == (variant == "spiked")


def test_large_elements_and_faint_ones_come_alone_too() -> None:
    """Beside each other one tells of the other: who is careful where he sees one is right on both."""
    drawn = random(64, 200)
    apply_variant(large := drawn.clone(), "free", "spiked", Strength(faint=False))
    apply_variant(faint := drawn.clone(), "free", "spiked", Strength(enlarged=False))
    assert float(large.abs().amax()) > 100 and bool((large.abs() >= drawn.abs()).all())
    assert bool((faint == 0).any()) and bool((faint.abs() <= drawn.abs()).all()) and float(faint.abs().mean(1).amin()) < 1e-20
    assert 0.3 < float((faint.sign() * drawn.sign() < 0).float().mean()) < 0.7, "signs are drawn anew all the same"


def test_the_weakest_form_of_spikes_makes_nothing_larger() -> None:
    """Of shares and sines zeros and faint ones are tried, though they have no larger ones."""
    drawn = torch.rand(64, 200)
    bent = drawn.clone()
    apply_variant(bent, "free", "spiked", strengths("spiked")[-1])
    assert bool((bent <= drawn).all()) and bool((bent == 0).any()) and bool((bent >= 0).all())
    apply_variant(kept := torch.ones(300), "constant", "spiked", strengths("spiked")[-1])
    assert torch.equal(kept, torch.ones(300))


@pytest.mark.parametrize("variant", BENT)
def test_symmetric_stays_symmetric(variant: str) -> None:
    bent = torch.stack([symmetric(), 3 * symmetric()])
    before = bent.clone()
    apply_variant(bent, structure(bent), variant)
    assert torch.equal(bent, bent.transpose(-1, -2))
    assert not torch.equal(bent, before)


@pytest.mark.parametrize("variant", BENT)
def test_a_symmetric_tensor_is_bent_in_pieces(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bottega.judge.inputs.PIECE", 1000)
    bent = torch.stack([symmetric(61), 3 * symmetric(61)])
    before = bent.clone()
    apply_variant(bent, "symmetric", variant)
    assert torch.equal(bent, bent.transpose(-1, -2))
    assert not bool((bent[:, -1, :30] == before[:, -1, :30]).all())
    assert not bool((bent[:, :5, :5] == before[:, :5, :5]).all())
    if variant != "heavy":
        assert bool((bent.abs() >= before.abs() * 0.999).all())


@pytest.mark.parametrize("variant", BENT)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_values_stay_within_the_data_type(variant: str, dtype: torch.dtype) -> None:
    bent = (random(200, 50) * 6e4).clamp(-6.5e4, 6.5e4).to(dtype)
    apply_variant(bent, "free", variant)
    assert bool(bent.isfinite().all())
    assert bent.dtype == dtype


def test_double_inputs_keep_their_range() -> None:
    bent = random(100, 100).double() * 1e100
    apply_variant(bent, structure(bent), "mixed")
    assert bool(bent.isfinite().all())
    assert float(bent.abs().max()) > 1e99


def test_variants_are_what_they_are_called() -> None:
    positive = torch.rand(100, 1000) + 0.1
    bent = {}
    for variant in BENT:
        bent[variant] = positive.clone()
        apply_variant(bent[variant], "free", variant)
    assert 0.45 < float((bent["mixed"] < 0).float().mean()) < 0.55
    assert torch.equal(bent["mixed"].abs(), positive)
    spiked = (bent["spiked"].abs() / positive) > 2
    assert 0.0005 < float(spiked.float().mean()) < 0.01
    assert float(bent["heavy"].abs().max()) > 10
    assert float(bent["offset"].mean()) > float(positive.mean()) + 0.5


def test_bending_keeps_the_memory_layout() -> None:
    tensor = random(30, 40).t()
    stride, pointer = tensor.stride(), tensor.data_ptr()
    apply_variant(tensor, "free", "mixed")
    assert (tensor.stride(), tensor.data_ptr()) == (stride, pointer)


def test_rows_are_looked_at_without_a_copy_of_the_whole() -> None:
    probabilities = random(300, 3, 4, 50).softmax(-1).permute(1, 0, 2, 3)
    assert structure(probabilities) == "normalised"
    assert structure(random(50, 300).softmax(0).t()) == "normalised"


@pytest.mark.parametrize("variant", ["mixed", "spiked", "heavy"])
def test_a_variant_that_keeps_signs_changes_sizes_alone(variant: str) -> None:
    drawn = torch.rand(1 << 14) + 0.5
    varied = drawn.clone()
    apply_variant(varied, "free", variant, WEAKEST)
    assert bool((varied > 0).all())
    assert torch.equal(varied, drawn) == (variant == "mixed")


def spiked(*shape: int) -> torch.Tensor:
    varied = torch.rand(*shape) + 0.1
    apply_variant(varied, "free", "spiked")
    return varied


def test_no_exponential_of_a_giant_fits_fp32() -> None:
    """A softmax that does not subtract the maximum shows, whatever the size of the inputs."""
    varied = spiked(64, 1024)
    assert bool(varied.exp().isinf().any())
    assert float((varied.abs() > 20).float().mean()) < 0.01


def test_every_axis_has_faint_slices_and_no_two_zeros_share_a_line() -> None:
    varied = spiked(16, 40, 24).double()
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        sizes = varied.abs().amax(others).sort().values
        assert float(sizes[0]) < 1e-4 and float(sizes[1]) < 10
        zeros = (varied == 0).sum(others)
        assert int(zeros.max()) == 1


def test_some_of_the_last_elements_of_a_long_axis_are_the_largest() -> None:
    varied = spiked(40, 4099).abs()
    assert bool((varied.argmax(-1) == 4098).any())
    assert float((varied[:, -1] > 1.2).float().mean()) > 0.2


@pytest.mark.parametrize("kept", [0.95, 0.99999])
@pytest.mark.parametrize("square", [False, True])
def test_what_is_left_out_of_a_very_long_sum_shows(kept: float, square: bool) -> None:
    one, two = torch.rand(1 << 21), torch.rand(1 << 21)
    for tensor in (one, two):
        apply_variant(tensor, "free", "concentrated")
    terms = (one - two).double().square() if square else one.double()
    whole, part = terms.sum(), terms[: int(kept * len(terms))].sum()
    assert float((whole - part) / whole) > 5e-5


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_a_constant_gets_other_values_of_its_sign_where_it_may(value: float) -> None:
    varied = torch.full((300,), value)
    apply_variant(varied, "constant", "offset")
    assert len(varied.unique()) > 100 and bool((varied * value >= 0).all())
    apply_variant(kept := torch.full((300,), value), "constant", "offset", Strength(extreme=False))
    assert bool((kept == value).all())


@pytest.mark.parametrize("value", [False, True])
def test_a_mask_that_is_the_same_everywhere_changes_in_some_places(value: bool) -> None:
    varied = torch.full((40, 50), value)
    apply_variant(varied, "constant", "spiked")
    assert 0.05 < float((varied != value).float().mean()) < 0.25


@pytest.mark.parametrize("variant", BENT)
def test_the_strongest_form_comes_first(variant: str) -> None:
    assert strengths(variant)[0] == STRONGEST
    assert len(set(strengths(variant))) == len(strengths(variant))


@pytest.mark.parametrize("shape", [(16, 3, 40, 40), (2, 4096), (4, 4)])
def test_a_short_axis_leaves_room_for_one_zero(shape: tuple[int, ...]) -> None:
    assert int((spiked(*shape) == 0).sum()) == 1


def test_a_complex_zero_is_zero_in_both_parts() -> None:
    varied = torch.randn(64, 64, dtype=torch.complex64)
    apply_variant(varied, "free", "spiked")
    assert int((varied == 0).sum()) == 8


def test_of_short_axes_at_the_front_three_blocks_are_faint() -> None:
    """Such as samples and channels, over each of which somebody takes a variance."""
    varied = spiked(4, 3, 6, 4096)
    sizes = varied.double().square().mean((-1, -2)).sqrt().flatten().sort().values
    assert float(sizes[0]) < 1e-20 < float(sizes[1]) < 1e-6 and 1e-4 < float(sizes[2]) < 0.1 < float(sizes[3])
    assert int((varied.square().sum((-1, -2)) == 0).sum()) == 1, "what is divided by its length, as a row of padding is"
