"""What the judge looks at cannot be foretold from the inputs: the generator that draws those has no part in it."""

from __future__ import annotations

import torch

from bottega.judge.arena import Arena
from bottega.judge.canary import Glance
from bottega.judge.layout import lay_out
from bottega.judge.poison import Spoil
from bottega.judge.secret import places


def test_places_lie_within_bounds() -> None:
    drawn = places(1000, 5000)
    assert drawn.dtype == torch.int64
    assert int(drawn.min()) >= 0 and int(drawn.max()) < 1000
    assert len(drawn.unique()) > 900
    assert places(10, 0).numel() == 0


def test_the_inputs_generator_tells_nothing_about_places() -> None:
    region = torch.zeros(1 << 20, dtype=torch.uint8)
    arena = Arena.create("cpu", 1 << 20)
    specs = lay_out([torch.zeros(1 << 16)])[0]
    draws = []
    try:
        for _ in range(2):
            torch.manual_seed(7)
            draws.append((places(1 << 40, 64), Glance([region]).places, Spoil(arena, specs, harmless=True).places))
            assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))  # nor is it moved on
    finally:
        arena.close()
    for one, two in zip(*draws):
        assert not torch.equal(one, two)
