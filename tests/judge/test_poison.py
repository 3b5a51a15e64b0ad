"""Inputs that are poisoned once a call has returned: NaN while it lasts, and afterwards as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.poison import BLOCK_WORDS, POISONED_BLOCKS, Poison
from bottega.judge.tensor_transport import TensorSpec, lay_out

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    made = Arena.create(request.param, 1 << 22)
    made.base.copy_(torch.randint(0, 200, (made.capacity,), dtype=torch.uint8))
    yield made
    made.close()


def laid_out(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, start: int = 0) -> list[TensorSpec]:
    return lay_out([torch.empty(shape, dtype=dtype) for shape in shapes], start)[0]


def test_every_input_is_poisoned_and_restored(arena: Arena) -> None:
    specs = laid_out((300, 500), (1000,), (70000,), start=1024)
    before = arena.base.clone()
    poison = Poison(arena, specs, read_only=False)
    assert torch.equal(arena.base, before)
    poison.apply()
    for spec in specs:
        assert spec.view(arena.base).isnan().any()
    poison.restore()
    assert torch.equal(arena.base, before)


def test_nothing_but_the_inputs_is_touched(arena: Arena) -> None:
    first, second = laid_out((5,), (11, 11), start=512)
    before = arena.base.clone()
    Poison(arena, [first, second], read_only=False).apply()
    ends = [spec.offset + -(-spec.extent // 8) * 8 for spec in (first, second)]
    for start, end in ((0, first.offset), (ends[0], second.offset), (ends[1], arena.capacity)):
        assert torch.equal(arena.base[start:end], before[start:end])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_small_input_is_wholly_poisoned(arena: Arena, dtype: torch.dtype) -> None:
    (spec,) = laid_out((3,), dtype=dtype)
    Poison(arena, [spec], read_only=False).apply()
    assert spec.view(arena.base).isnan().all()


def test_an_index_is_out_of_range(arena: Arena) -> None:
    (spec,) = laid_out((64,), dtype=torch.int64)
    Poison(arena, [spec], read_only=False).apply()
    assert (spec.view(arena.base) == -1).all()


def test_what_the_call_itself_changed_stays_changed(arena: Arena) -> None:
    """Or a call that writes into its inputs would not be seen."""
    (spec,) = laid_out((64,))
    poison = Poison(arena, [spec], read_only=False)
    spec.view(arena.base).fill_(7.0)
    poison.apply()
    poison.restore()
    assert (spec.view(arena.base) == 7).all()


def test_inputs_that_are_still_needed_are_only_looked_at(arena: Arena) -> None:
    before = arena.base.clone()
    poison = Poison(arena, laid_out((4096,)), read_only=True)
    poison.apply()
    assert torch.equal(arena.base, before)
    poison.restore()
    assert torch.equal(arena.base, before)


def test_without_inputs_nothing_is_poisoned(arena: Arena) -> None:
    before = arena.base.clone()
    for specs in ([], laid_out((0, 4))):
        poison = Poison(arena, specs, read_only=False)
        poison.apply()
        poison.restore()
    assert torch.equal(arena.base, before)


@pytest.mark.parametrize("count", [1, 3, 64, 100])
def test_many_inputs_do_not_make_it_longer(arena: Arena, count: int) -> None:
    specs = laid_out(*[(2000,)] * count)
    poison = Poison(arena, specs, read_only=False)
    assert poison.places.numel() <= max(POISONED_BLOCKS, count) * BLOCK_WORDS
    poison.apply()
    assert all(spec.view(arena.base).isnan().any() for spec in specs)


def test_other_places_every_time(arena: Arena) -> None:
    specs = laid_out((500_000,))
    assert not torch.equal(Poison(arena, specs, read_only=False).places, Poison(arena, specs, read_only=False).places)
