"""Inputs that are spoiled once a call has returned: garbage while it lasts, and afterwards as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.layout import TensorSpec, lay_out
from bottega.judge.poison import SPOILED_BLOCKS, SPOILED_WORDS, Spoil

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    made = Arena.create(request.param, 1 << 22)
    made.base.copy_(torch.randint(0, 200, (made.capacity,), dtype=torch.uint8))
    yield made
    made.close()


def laid_out(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, start: int = 0) -> list[TensorSpec]:
    return lay_out([torch.empty(shape, dtype=dtype) for shape in shapes], start)[0]


def test_every_input_is_spoiled_and_mended(arena: Arena) -> None:
    specs = laid_out((300, 500), (1000,), (70000,), start=1024)
    before = arena.base.clone()
    spoil = Spoil(arena, specs, harmless=False)
    assert torch.equal(arena.base, before)
    spoil.strike()
    for spec in specs:
        assert spec.view(arena.base).isnan().any()
    spoil.mend()
    assert torch.equal(arena.base, before)


def test_nothing_but_the_inputs_is_touched(arena: Arena) -> None:
    first, second = laid_out((5,), (11, 11), start=512)
    before = arena.base.clone()
    Spoil(arena, [first, second], harmless=False).strike()
    ends = [spec.offset + -(-spec.extent // 8) * 8 for spec in (first, second)]
    for start, end in ((0, first.offset), (ends[0], second.offset), (ends[1], arena.capacity)):
        assert torch.equal(arena.base[start:end], before[start:end])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_small_input_is_wholly_garbage(arena: Arena, dtype: torch.dtype) -> None:
    (spec,) = laid_out((3,), dtype=dtype)
    Spoil(arena, [spec], harmless=False).strike()
    assert spec.view(arena.base).isnan().all()


def test_an_index_is_out_of_range(arena: Arena) -> None:
    (spec,) = laid_out((64,), dtype=torch.int64)
    Spoil(arena, [spec], harmless=False).strike()
    assert (spec.view(arena.base) == -1).all()


def test_what_the_call_itself_changed_stays_changed(arena: Arena) -> None:
    """Or a call that writes into its inputs would not be seen."""
    (spec,) = laid_out((64,))
    spoil = Spoil(arena, [spec], harmless=False)
    spec.view(arena.base).fill_(7.0)
    spoil.strike()
    spoil.mend()
    assert (spec.view(arena.base) == 7).all()


def test_inputs_that_are_still_needed_are_only_looked_at(arena: Arena) -> None:
    before = arena.base.clone()
    spoil = Spoil(arena, laid_out((4096,)), harmless=True)
    spoil.strike()
    assert torch.equal(arena.base, before)
    spoil.mend()
    assert torch.equal(arena.base, before)


def test_without_inputs_nothing_is_spoiled(arena: Arena) -> None:
    before = arena.base.clone()
    for specs in ([], laid_out((0, 4))):
        spoil = Spoil(arena, specs, harmless=False)
        spoil.strike()
        spoil.mend()
    assert torch.equal(arena.base, before)


@pytest.mark.parametrize("count", [1, 3, 64, 100])
def test_many_inputs_do_not_make_it_longer(arena: Arena, count: int) -> None:
    specs = laid_out(*[(2000,)] * count)
    spoil = Spoil(arena, specs, harmless=False)
    assert spoil.places.numel() <= max(SPOILED_BLOCKS, count) * SPOILED_WORDS
    spoil.strike()
    assert all(spec.view(arena.base).isnan().any() for spec in specs)


def test_other_places_every_time(arena: Arena) -> None:
    specs = laid_out((500_000,))
    assert not torch.equal(Spoil(arena, specs, harmless=False).places, Spoil(arena, specs, harmless=False).places)
