"""A stock of outputs is suspected by the memory it takes or by ever new addresses, and what it hides is charged."""

from __future__ import annotations

from typing import Any

import pytest

from bottega.judge.clocks import TimedPair
from bottega.judge.prepared_work import PreparedWork, amortised_ns, charge

MIB = 1 << 20
MS = 1_000_000
SAME_PLACE: list[tuple[int, ...]] = [(4096,)] * 12
NEW_PLACES: list[tuple[int, ...]] = [(4096 * number,) for number in range(12)]


def suspected(more_memory: int = 0, places: list[tuple[int, ...]] = SAME_PLACE, output: int = 32 * MIB) -> PreparedWork | None:
    return PreparedWork.suspected(more_memory, 64 * MIB, places, output, call_s=0.001, rate=1e10)


def pairs(*ran_ms: float) -> list[TimedPair]:
    return [TimedPair(MS, MS, MS, MS, candidate_ran=round(each * MS), cores=2) for each in ran_ms]


def test_an_ordinary_candidate_is_not_suspected() -> None:
    assert suspected() is None
    assert suspected(more_memory=40 * MIB) is None
    assert suspected(places=NEW_PLACES, output=4096) is None  # small blocks come from anywhere, and are nothing to prepare


def test_memory_and_new_addresses_are_suspected() -> None:
    by_memory, by_places = suspected(more_memory=2048 * MIB), suspected(places=NEW_PLACES)
    assert by_memory is not None and by_memory.calls == 66
    assert by_places is not None and by_places.calls == 2
    assert by_memory.rounds(0.001) == 132 and by_memory.rounds(0.1) == 40


def test_what_calls_take_longer_in_the_long_run_is_found() -> None:
    stock = PreparedWork(unit=32 * MIB, calls=8)
    assert stock.hidden_ns(pairs(*[1.0] * 12), pairs(*[1.0] * 16), 1e10) == 0.0
    used_up = stock.hidden_ns(pairs(*[1.0] * 12), pairs(*[1.0] * 8, *[5.0] * 8), 1e10)
    refilled = stock.hidden_ns(pairs(*[1.0] * 12), pairs(*[1.0] * 15, 33.0), 1e10)
    assert used_up > 3 * MS and refilled > 3 * MS


def test_one_call_that_works_for_nine_is_found() -> None:
    assert amortised_ns(pairs(*[0.5] * 8, 5.0)) == pytest.approx(0.5 * MS)
    assert amortised_ns(pairs(*[0.5] * 8, 0.9)) == 0.0


def test_too_few_rounds_are_no_excuse() -> None:
    hidden = PreparedWork(unit=1e7, calls=50).hidden_ns(pairs(1.0), pairs(*[1.0] * 20), 1e10)
    assert hidden == pytest.approx(2 * MS)


def test_a_charge_never_raises_anything() -> None:
    row: dict[str, Any] = {"baseline_ms": 10.0, "speedup": [8.0, 4.0, 20.0]}
    charge(row, 20.0 * MS)
    point, low, high = row["speedup"]
    assert low < point < 1 < high == 20.0 and "20 ms" in row["prepared"]
