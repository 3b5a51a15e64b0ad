"""Integers, booleans and numbers of few values: what they are like is seen, and only values that were drawn are used."""

from __future__ import annotations

import pytest
import torch

from bottega.judge.discrete_variants import apply_discrete, change_one_place, discrete_structure, kind_of_table
from bottega.judge.input_variants import STRONGEST, Strength
from bottega.judge.inputs import InputSource
from bottega.judge.variants import OF_INTEGERS

WEAKER = Strength(extreme=False)


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.randint(0, 50, (64, 40)), "repeating"),
        (torch.rand(64, 40) > 0.5, "repeating"),
        ((torch.rand(64, 40) > 0.5).float(), "repeating"),
        (torch.randperm(1000), "distinct"),
        (torch.arange(64).repeat(4, 1), "consecutive"),
        (torch.full((16,), 128), "constant"),
        (torch.ones(4, 9, dtype=torch.int64), "constant"),
        (torch.zeros(4, 9, dtype=torch.int64), "constant"),
        (torch.full((9,), -1), "fixed"),
        (torch.randint(0, 9, (500,)).sort().values, "segments"),
        (torch.ones(4, 9, dtype=torch.bool), "fixed"),
        (torch.tensor([0, 5, 9, 9, 20]), "fixed"),
        (torch.ones(64, 64, dtype=torch.bool).tril(), "staircase"),
        (torch.full((2, 1, 64, 64), float("-inf")).triu(1), "staircase"),
        ((torch.arange(40) < torch.randint(1, 40, (8, 1))).long(), "staircase"),
        (torch.ones(64, 64).tril(3).triu(-3), "fixed"),
        (torch.linspace(0, 1, 513), "progression"),
        (torch.arange(64.0).repeat(4, 1), "progression"),
        (torch.rand(64).sort().values, "fixed"),
        ((torch.rand(64, 64) > 0.5).tril(), "fixed"),
        (torch.eye(64, dtype=torch.int64), "fixed"),
        (torch.nn.functional.one_hot(torch.randint(0, 10, (100,)), 10), "fixed"),
        (torch.randn(64, 64), "fixed"),
        (torch.randn(64).to(torch.complex64), "fixed"),
        (torch.empty(0, dtype=torch.int64), "fixed"),
    ],
)
def test_what_they_are_like_is_seen(tensor: torch.Tensor, kind: str) -> None:
    assert discrete_structure(tensor) == kind


@pytest.mark.parametrize("variant", OF_INTEGERS)
@pytest.mark.parametrize("strength", [STRONGEST, WEAKER])
@pytest.mark.parametrize("shape", [(64, 40), (4096,), (3, 100), (256, 4), (5,), (4, 8, 20)])
def test_only_drawn_values_are_used(variant: str, strength: Strength, shape: tuple[int, ...]) -> None:
    drawn = torch.randint(0, 30, shape) * 7
    varied = drawn.clone()
    apply_discrete(varied, "repeating", variant, strength)
    assert set(varied.flatten().tolist()) <= set(drawn.flatten().tolist())


@pytest.mark.parametrize("variant", OF_INTEGERS)
def test_columns_with_another_range_keep_it(variant: str) -> None:
    for _ in range(8):
        varied = torch.stack([torch.randint(0, 10, (500,)), torch.randint(0, 1000, (500,))], -1)
        apply_discrete(varied, "repeating", variant, STRONGEST)
        assert int(varied[:, 0].max()) < 10


def test_some_rows_are_of_one_value_and_some_are_sorted() -> None:
    varied = torch.rand(64, 40) > 0.5
    apply_discrete(varied, "repeating", "discrete", STRONGEST)
    assert bool(varied.all(-1).any()) and bool((~varied).all(-1).any())
    numbers = torch.randint(0, 1000, (64, 40))
    apply_discrete(numbers, "repeating", "discrete", STRONGEST)
    steps = numbers.diff(dim=-1)
    assert bool(((steps >= 0).all(-1) & (steps > 0).any(-1)).any()) and bool(((steps <= 0).all(-1) & (steps < 0).any(-1)).any())


def test_the_weaker_form_hides_no_whole_row() -> None:
    varied = torch.rand(64, 200) > 0.5
    apply_discrete(varied, "repeating", "discrete", WEAKER)
    apply_discrete(varied, "repeating", "uniform", WEAKER)
    assert bool(varied.any(-1).all())


def test_in_the_uniform_variant_all_are_alike() -> None:
    varied = torch.randint(0, 100, (64, 400))
    apply_discrete(varied, "repeating", "uniform", STRONGEST)
    assert len(varied.unique()) == 1


@pytest.mark.parametrize("variant", OF_INTEGERS)
@pytest.mark.parametrize(
    ("kind", "drawn"), [("distinct", torch.randperm(1000)), ("consecutive", torch.arange(64).repeat(4, 1))]
)
def test_distinct_numbers_stay_distinct(variant: str, kind: str, drawn: torch.Tensor) -> None:
    varied = drawn.clone()
    apply_discrete(varied, kind, variant, STRONGEST)
    assert torch.equal(varied.sort(-1).values, drawn.sort(-1).values) and not torch.equal(varied, drawn)


def test_each_row_of_positions_begins_elsewhere() -> None:
    varied = torch.arange(64).repeat(16, 1)
    apply_discrete(varied, "consecutive", "discrete", STRONGEST)
    assert len(varied[:, 0].unique()) > 2 and bool((varied[:, 0] > 0).all())


def test_lengths_become_shorter_and_a_mask_of_ones_gets_zeros() -> None:
    lengths, mask = torch.full((64,), 128), torch.ones(40, 50, dtype=torch.int64)
    for tensor in (lengths, mask):
        apply_discrete(tensor, "constant", "discrete", STRONGEST)
    assert 1 <= int(lengths.min()) < 128 == int(lengths.max())
    assert 0.05 < float((mask == 0).double().mean()) < 0.25


def test_where_nothing_is_known_numbers_only_change_places() -> None:
    drawn = torch.randint(0, 100, (64, 40))
    apply_discrete(varied := drawn.clone(), "repeating", "uniform", STRONGEST, reorder_only=True)
    assert torch.equal(varied.sort(-1).values, drawn.sort(-1).values) and not torch.equal(varied, drawn)


def test_a_table_that_is_the_same_in_every_draw_is_left_alone() -> None:
    table = torch.randint(0, 9, (64, 40))
    source = InputSource(lambda: [torch.randn(8, 8), table.clone(), torch.randint(0, 9, (64, 40)), torch.full((8,), 64)], "cpu")
    assert not source.has_discrete
    for _ in range(2):
        source.draw()
    assert source.has_discrete and source.discrete == ["fixed", "fixed", "repeating", "constant"]
    drawn = source.draw("discrete")
    assert torch.equal(drawn.tensors[1], table) and int(drawn.tensors[3].min()) < 64


@pytest.mark.parametrize("variant", OF_INTEGERS)
@pytest.mark.parametrize("drawn", [torch.arange(0, 4097, 16), torch.arange(0, 10, 2), torch.arange(8, 1000, 31).repeat(3, 1)])
def test_parts_of_one_length_get_others_between_the_same_ends(variant: str, drawn: torch.Tensor) -> None:
    kind = discrete_structure(drawn)
    assert kind == "progression"
    seen = set()
    for _ in range(8):
        varied = drawn.clone()
        apply_discrete(varied, kind, variant, STRONGEST)
        assert torch.equal(varied[..., [0, -1]], drawn[..., [0, -1]])
        assert bool((varied.diff(dim=-1) > 0).all())
        seen.add(torch.equal(varied, drawn))
    assert False in seen
    apply_discrete(weaker := drawn.clone(), kind, variant, WEAKER)
    assert torch.equal(weaker, drawn)


@pytest.mark.parametrize("drawn", [torch.linspace(0, 1, 513), torch.arange(64.0).repeat(3, 1) - 7])
def test_a_grid_of_equal_steps_gets_others_between_the_same_ends(drawn: torch.Tensor) -> None:
    apply_discrete(varied := drawn.clone(), "progression", "discrete", STRONGEST)
    steps = varied.diff(dim=-1)
    assert torch.equal(varied[..., [0, -1]], drawn[..., [0, -1]])
    assert float(steps.min()) > 0 and float(steps.std()) > 0.1 * float(drawn.diff(dim=-1).mean())


@pytest.mark.parametrize(
    "drawn",
    [
        torch.ones(64, 64, dtype=torch.bool).tril(),
        torch.ones(2, 32, 32).triu(),
        torch.full((64, 64), float("-inf")).triu(1),
        torch.arange(40) < 11,
    ],
)
def test_rows_of_a_mask_change_elsewhere_and_none_is_all_of_one_value(drawn: torch.Tensor) -> None:
    seen = []
    for _ in range(8):
        apply_discrete(varied := drawn.clone(), "staircase", "discrete", STRONGEST)
        assert bool(((varied[..., 1:] != varied[..., :-1]).sum(-1) == 1).all())
        assert set(varied.unique().tolist()) == set(drawn.unique().tolist())
        assert bool((varied[..., 0] != varied[..., -1]).all()) and bool((varied[..., 0] == varied.flatten()[0]).all())
        seen.append(torch.equal(varied, drawn))
    assert not all(seen)


def drawn_twice(*inputs: object) -> InputSource:
    source = InputSource(lambda: [torch.randn(64), *inputs], "cpu")
    source.draw()
    source.draw()
    return source


def test_where_parts_begin_is_left_alone_where_another_table_may_tell_the_same() -> None:
    begins = torch.arange(0, 64, 8)
    assert drawn_twice(begins).has_discrete
    assert not drawn_twice(begins, torch.arange(8).repeat_interleave(8)).has_discrete
    causal = torch.ones(64, 64, dtype=torch.bool).tril()
    assert drawn_twice(causal).has_discrete
    assert not drawn_twice(causal, torch.arange(0, 64, 8)).has_discrete


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.ones(64, 64).tril(3).triu(-3), "mask"),
        (torch.full((2, 64, 64), float("-inf")).triu(4) + torch.full((64, 64), float("-inf")).tril(-4), "mask"),
        (torch.block_diag(*[torch.ones(8, 8)] * 8).bool(), "mask"),
        (torch.eye(64), "fixed"),
        (torch.eye(64)[torch.randperm(64)].bool(), "fixed"),
        (torch.arange(64).view(4, 16).t().reshape(-1), "order"),
        (torch.arange(64).flip(0), "order"),
        (torch.arange(0, 640, 10) ** 2, "rising"),
        (torch.tensor([0, 3, 3, 9]), "rising"),
        (torch.arange(64) // 7, "rising"),
        (torch.randint(0, 9, (64,)), "order"),
        (torch.tensor([7, 2, 9, 4]), "order"),
        (torch.eye(64)[0].long(), "fixed"),
        (torch.tensor([[0, 5], [3, 1], [2, 2]]), "fixed"),
        (torch.randn(64, 64), "fixed"),
    ],
)
def test_a_table_that_anybody_could_guess_is_seen(tensor: torch.Tensor, kind: str) -> None:
    tensor = tensor.nan_to_num(float("-inf"), neginf=float("-inf"))
    assert kind_of_table(tensor) == kind
    assert (drawn_twice(tensor).discrete or [])[1] in (kind, "progression")


def test_a_mask_changes_in_some_places_and_stays_symmetric() -> None:
    drawn = torch.ones(64, 64, dtype=torch.bool).tril(3).triu(-3)
    apply_discrete(varied := drawn.clone(), "mask", "discrete", STRONGEST)
    assert torch.equal(varied, varied.T) and 0.05 < float((varied != drawn).float().mean()) < 0.25
    assert bool(varied.any(-1).all()) and not bool(varied.all(-1).any())


def test_what_rises_does_so_by_the_same_steps_in_another_order() -> None:
    drawn = torch.stack([torch.arange(64) ** 2, torch.arange(64) // 3])
    apply_discrete(varied := drawn.clone(), "rising", "discrete", STRONGEST)
    assert torch.equal(varied.diff().sort(-1).values, drawn.diff().sort(-1).values) and not torch.equal(varied, drawn)
    assert torch.equal(varied[:, [0, -1]], drawn[:, [0, -1]])


@pytest.mark.parametrize(
    ("drawn", "kind"),
    [(torch.arange(64), "consecutive"), (torch.arange(64) * 7 % 64, "order"), (torch.arange(1, 65).cumsum(0), "rising")],
)
@pytest.mark.parametrize("rows", [(), (1,), (2, 3)])
def test_of_a_table_that_could_be_kept_one_place_changes(drawn: torch.Tensor, kind: str, rows: tuple[int, ...]) -> None:
    drawn = drawn.expand(*rows, 64).clone()
    change_one_place(varied := drawn.clone(), kind)
    assert 0 < int((varied.diff() != drawn.diff()).sum()) <= 4 and int((varied != drawn).any(-1).sum()) == 1
    if kind == "rising":
        assert bool((varied.diff() > 0).all()) and torch.equal(varied[..., [0, -1]], drawn[..., [0, -1]])
    else:
        assert torch.equal(varied.sort(-1).values, drawn.sort(-1).values)


def test_a_permutation_is_another_one() -> None:
    drawn = torch.stack([torch.arange(64).flip(0), torch.arange(64).roll(3)])
    apply_discrete(varied := drawn.clone(), "order", "discrete", STRONGEST)
    assert torch.equal(varied.sort(-1).values, drawn.sort(-1).values) and not torch.equal(varied, drawn)


@pytest.mark.parametrize("variant", OF_INTEGERS)
def test_some_segments_are_empty_and_all_stay_in_order(variant: str) -> None:
    drawn = torch.randint(0, 40, (4000,)).sort().values
    apply_discrete(varied := drawn.clone(), "segments", variant, STRONGEST)
    assert bool((varied.diff() >= 0).all()) and set(varied.tolist()) < set(drawn.tolist())


def test_segments_are_left_alone_where_another_input_may_tell_the_same() -> None:
    def drawn(with_lengths: bool) -> list[torch.Tensor]:
        segments = torch.randint(0, 9, (500,)).sort().values
        return [segments, segments.bincount(minlength=9)][: 1 + with_lengths]

    for with_lengths in (False, True):
        source = InputSource(lambda: drawn(with_lengths), "cpu")  # noqa: B023
        source.draw()
        source.draw()
        assert (source.discrete or [])[0] == ("fixed" if with_lengths else "segments")
