"""From an estimate to what is claimed, and to the words in which it is told."""

from __future__ import annotations

import pytest

from bottega.judge.memory_need import CONTEXT_BYTES, MemoryEstimate, corrected_bytes, in_words, needed_bytes

GB = 10**9
GIB = 1 << 30


def test_a_claim_is_the_bound_that_a_verdict_keeps() -> None:
    assert needed_bytes(MemoryEstimate()) == 2 * GIB
    assert needed_bytes(MemoryEstimate(inputs=3 * GIB, parameters=GIB, outputs=2 * GIB, workspace=7)) == 25 * GIB + 7
    one, two = (needed_bytes(MemoryEstimate(parameters=GIB, workspace=5), baselines) for baselines in (1, 2))
    assert two - one == CONTEXT_BYTES + GIB + 5


def test_what_was_seen_leaves_room_for_a_candidate() -> None:
    estimate = MemoryEstimate(inputs=3 * GIB, parameters=GIB, outputs=2 * GIB, workspace=4 * GIB)
    assert corrected_bytes(estimate, 10 * GIB) == 17 * GIB + CONTEXT_BYTES


def test_the_need_is_told_in_the_units_of_gpus() -> None:
    told = in_words(MemoryEstimate(6_400_000_000, 0, 6_400_000_000, 300_000_000), 61 * GB)
    assert told == "about 61 GB on the device (inputs 6.4, outputs 6.4, parameters 0.0, workspace 0.3)"


@pytest.mark.parametrize("told", [None, [], {}, {"inputs": -1}, {"inputs": 1, "parameters": 1, "outputs": "x", "workspace": 0}])
def test_what_a_broken_process_says_is_no_estimate(told: object) -> None:
    assert MemoryEstimate.from_json(told) is None


def test_an_estimate_travels() -> None:
    estimate = MemoryEstimate(1, 2, 3, 4, "fake tensors")
    assert MemoryEstimate.from_json(estimate.to_json()) == estimate
