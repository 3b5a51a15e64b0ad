"""The controller's kernel behind a worker's work: without the flag it touches nothing, with it the inputs are poisoned."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.barrier import Barrier, BarrierTimeout, lateness
from bottega.judge.poison import Poison
from bottega.judge.tensor_transport import TensorSpec, lay_out

gpu = pytest.mark.gpu

NONCE = (1 << 51) + 12345


@pytest.fixture
def barrier() -> Iterator[Barrier]:
    made = Barrier("cuda")
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


def write(barrier: Barrier, value: int) -> None:
    barrier.flag.base[:8].view(torch.int64).fill_(value)


def applied(barrier: Barrier, poison: Poison) -> bool:
    return barrier.apply(poison, NONCE, 1000, time.monotonic() + 10)


@gpu
def test_without_the_flag_nothing_happens(barrier: Barrier, inputs: Arena) -> None:
    before, poison = inputs.base.clone(), Poison(inputs, specs(), read_only=False)
    assert not applied(barrier, poison)
    write(barrier, NONCE - 1)
    assert not applied(barrier, poison)
    assert torch.equal(inputs.base, before)


@gpu
def test_with_the_flag_the_inputs_are_poisoned_and_can_be_restored(barrier: Barrier, inputs: Arena) -> None:
    before, poison = inputs.base.clone(), Poison(inputs, specs(), read_only=False)
    write(barrier, NONCE)
    assert applied(barrier, poison)
    for spec in specs():
        assert spec.view(inputs.base).isnan().any()
    poison.restore()
    assert torch.equal(inputs.base, before)


@gpu
def test_inputs_that_are_still_needed_are_left_alone(barrier: Barrier, inputs: Arena) -> None:
    before = inputs.base.clone()
    write(barrier, NONCE)
    assert applied(barrier, Poison(inputs, specs(), read_only=True))
    assert applied(barrier, Poison(inputs, [], read_only=False))
    assert torch.equal(inputs.base, before)


@gpu
def test_the_flag_counts_in_the_order_of_the_work(barrier: Barrier, inputs: Arena) -> None:
    """What was enqueued before it is over when it is found."""
    done = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch.cuda._sleep(5_000_000)
    done.fill_(1)
    write(barrier, NONCE)
    assert applied(barrier, Poison(inputs, specs(), read_only=False))
    assert done.item() == 1


@gpu
def test_work_that_begins_while_the_device_is_watched_makes_it_late(barrier: Barrier) -> None:
    def watched(work: int) -> int:
        answers = iter([False] * 20 + [True])

        def over() -> bool:
            ended = next(answers)
            if ended and work:
                torch.cuda._sleep(work)
            return ended

        return barrier.watch(over, time.monotonic() + 10)

    idle = min(watched(0) for _ in range(9))  # others may use the device too
    assert watched(20_000_000) > 2_000_000 > idle


@gpu
def test_a_device_is_not_watched_for_ever(barrier: Barrier) -> None:
    with pytest.raises(BarrierTimeout):
        barrier.watch(lambda: False, time.monotonic() + 0.1)


def test_a_busy_host_is_not_late_and_work_for_another_call_is() -> None:
    slow_host = [9_000, 14_000, 11_000, 17_000, 12_000, 20_000, 10_000, 13_000] * 5
    assert lateness(slow_host, quickest=9_000) == 0
    assert 120_000 < lateness([*slow_host, 140_000], quickest=9_000) < 140_000


def test_a_worker_that_delays_nearly_all_does_not_become_usual() -> None:
    assert lateness([60_000] * 40 + [10_000] * 5, quickest=9_000) > 40 * 40_000
