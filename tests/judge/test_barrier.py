"""The referee's kernel behind a side's work: without the word it touches nothing, with it the inputs are spoiled."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.barrier import Fence
from bottega.judge.layout import TensorSpec, lay_out
from bottega.judge.poison import Spoil

pytestmark = pytest.mark.gpu

NONCE = (1 << 51) + 12345


@pytest.fixture
def fence() -> Iterator[Fence]:
    made = Fence("cuda")
    yield made
    made.close()


@pytest.fixture
def inputs() -> Iterator[Arena]:
    made = Arena.create("cuda", 1 << 22)
    made.base.copy_(torch.randint(0, 200, (made.capacity,), dtype=torch.uint8))
    yield made
    made.close()


def specs() -> list[TensorSpec]:
    return lay_out([torch.empty(300, 500), torch.empty(7), torch.empty(70000)], 1024)[0]


def write(fence: Fence, word: int) -> None:
    fence.word.base[:8].view(torch.int64).fill_(word)


def struck(fence: Fence, spoil: Spoil) -> bool:
    return fence.strike(spoil, NONCE, 1000, time.monotonic() + 10)


def test_without_the_word_nothing_happens(fence: Fence, inputs: Arena) -> None:
    before, spoil = inputs.base.clone(), Spoil(inputs, specs(), harmless=False)
    assert not struck(fence, spoil)
    write(fence, NONCE - 1)
    assert not struck(fence, spoil)
    assert torch.equal(inputs.base, before)


def test_with_the_word_the_inputs_are_spoiled_and_can_be_mended(fence: Fence, inputs: Arena) -> None:
    before, spoil = inputs.base.clone(), Spoil(inputs, specs(), harmless=False)
    write(fence, NONCE)
    assert struck(fence, spoil)
    for spec in specs():
        assert spec.view(inputs.base).isnan().any()
    spoil.mend()
    assert torch.equal(inputs.base, before)


def test_inputs_that_are_still_needed_are_left_alone(fence: Fence, inputs: Arena) -> None:
    before = inputs.base.clone()
    write(fence, NONCE)
    assert struck(fence, Spoil(inputs, specs(), harmless=True))
    assert struck(fence, Spoil(inputs, [], harmless=False))
    assert torch.equal(inputs.base, before)


def test_the_word_counts_in_the_order_of_the_work(fence: Fence, inputs: Arena) -> None:
    """What was enqueued before it is over when it is found."""
    done = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch.cuda._sleep(5_000_000)
    done.fill_(1)
    write(fence, NONCE)
    assert struck(fence, Spoil(inputs, specs(), harmless=False))
    assert done.item() == 1
