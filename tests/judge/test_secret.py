"""What the judge looks at cannot be foretold from the inputs: the generator that draws those has no part in it."""

from __future__ import annotations

import torch

from bottega.judge.arena import Arena
from bottega.judge.canary import Canary
from bottega.judge.poison import Poison
from bottega.judge.secret import secret_choice, secret_indices
from bottega.judge.tensor_transport import lay_out


def test_places_lie_within_bounds() -> None:
    drawn = secret_indices(1000, 5000)
    assert drawn.dtype == torch.int64
    assert int(drawn.min()) >= 0 and int(drawn.max()) < 1000
    assert len(drawn.unique()) > 900
    assert secret_indices(10, 0).numel() == 0


def test_of_many_outputs_the_largest_are_looked_at_and_any_of_the_others() -> None:
    assert secret_choice([3, 1, 2], 3) == [0, 1, 2] and secret_choice([], 3) == []
    sizes = [*[1] * 100, 7, 9]
    drawn = [secret_choice(sizes, 4) for _ in range(200)]
    assert all(len(set(each)) == 4 and each == sorted(each) and {100, 101} < set(each) for each in drawn)
    assert len({number for each in drawn for number in each}) > 90


def test_the_inputs_generator_tells_nothing_about_places() -> None:
    region = torch.zeros(1 << 20, dtype=torch.uint8)
    arena = Arena.create("cpu", 1 << 20)
    specs = lay_out([torch.zeros(1 << 16)])[0]
    draws = []
    try:
        for _ in range(2):
            torch.manual_seed(7)
            draws.append((secret_indices(1 << 40, 64), Canary([region]).places, Poison(arena, specs, read_only=True).places))
            assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))  # nor is it moved on
    finally:
        arena.close()
    for one, two in zip(*draws):
        assert not torch.equal(one, two)
