"""A stock of outputs is suspected by the memory it takes or by ever new addresses, and what it hides is charged."""

from __future__ import annotations

from typing import Any

import pytest

from bottega.judge.clocks import TimedPair
from bottega.judge.prepared_work import PreparedWork, amortised_ns, charge

MIB = 1 << 20
MS = 1_000_000


def suspected(more_memory: int = 0, output: int = 4096) -> PreparedWork | None:
    return PreparedWork.suspected(more_memory, 64 * MIB, output, call_s=0.001, rate=1e10)


def pairs(*core_ms: float, baseline: tuple[float, ...] = (), beside_ms: float = 0.0) -> list[TimedPair]:
    """What calls of the candidate took on a core, and of the baseline; with what a worker does beside a call."""
    theirs = baseline or (1.0,) * len(core_ms)
    beside = round(beside_ms * MS)
    return [
        TimedPair(
            MS, MS, MS, MS, baseline_beside=beside, baseline_core=beside + round(b * MS), candidate_core=beside + round(c * MS)
        )
        for c, b in zip(core_ms, theirs, strict=True)
    ]


def calls(*core_ms: float) -> list[int]:
    return [round(each * MS) for each in core_ms]


def test_an_ordinary_candidate_is_not_suspected() -> None:
    assert suspected() is None
    assert suspected(more_memory=30 * MIB) is None


def test_memory_and_large_outputs_are_suspected() -> None:
    by_memory, by_outputs = suspected(more_memory=2048 * MIB, output=32 * MIB), suspected(output=32 * MIB)
    assert by_memory is not None and by_memory.calls == 66
    assert by_outputs is not None and by_outputs.calls == 2
    assert by_memory.calls_to_make == by_memory.calls + 8


def test_much_memory_beside_short_calls_is_used_up_by_few() -> None:
    """What gains less than the microseconds of every interval need not be looked for."""
    short = PreparedWork.suspected(256 * MIB, 64 * MIB, 4096, call_s=50e-6, rate=3e10)
    assert short is not None and short.calls < 800


def test_what_calls_take_longer_in_the_long_run_is_found() -> None:
    stock = PreparedWork(unit=32 * MIB, calls=8)
    assert stock.hidden_ns(pairs(*[1.0] * 12), calls(*[1.0] * 16)) == 0.0
    used_up = stock.hidden_ns(pairs(*[1.0] * 12), calls(*[1.0] * 8, *[5.0] * 8))
    refilled = stock.hidden_ns(pairs(*[1.0] * 12), calls(*[1.0] * 15, 33.0))
    assert used_up == pytest.approx(4 * MS) and refilled > 2 * MS


def test_a_long_delivery_hides_no_stock() -> None:
    """The copy of large outputs takes longer than the zeros that were prepared."""
    stock = PreparedWork(unit=32 * MIB, calls=8)
    before = pairs(*[0.15] * 12, beside_ms=2.8)
    assert stock.hidden_ns(before, calls(*[2.95] * 8, *[3.9] * 8)) == pytest.approx(0.95 * MS)
    assert stock.hidden_ns(before, calls(*[3.0] * 16)) == 0.0
    assert amortised_ns(pairs(*[0.15] * 8, 2.5, beside_ms=2.8)) > 0.2 * MS


def test_one_call_that_works_for_nine_is_found() -> None:
    assert amortised_ns(pairs(*[0.5] * 8, 5.0)) == pytest.approx(0.5 * MS)
    assert amortised_ns(pairs(*[0.5] * 8, 0.9)) == 0.0


def test_an_accident_does_not_come_again_and_a_stock_that_is_used_up_stays_so() -> None:
    timed = pairs(*[0.5] * 7, 1.8)
    assert amortised_ns(timed) > 0
    assert amortised_ns(timed, pairs(*[0.5] * 16)) == 0.0
    assert amortised_ns(timed, pairs(*[1.8] * 16)) > 0.8 * MS


def test_inputs_that_take_both_longer_are_nobodys_stock() -> None:
    mine, theirs = (0.5, 0.5, 2.0) * 4, (1.0, 1.0, 4.0) * 4
    assert amortised_ns(pairs(*mine, baseline=theirs)) == 0.0
    assert amortised_ns(pairs(*mine)) > 0.4 * MS


def test_where_a_stock_is_filled_again_one_of_the_calls_pays_for_it() -> None:
    for size in (1, 2, 4, 8, 40):
        stock = PreparedWork(unit=32 * MIB, calls=size)
        filled = [1.0 if left else 1.0 + 4.0 * size for left in ([*range(size, 0, -1), 0] * 80)]
        after = calls(*filled[: stock.calls_to_make])
        assert stock.hidden_ns(pairs(*[1.0] * 12), after) > 1 * MS, size


def test_of_few_calls_only_what_all_take_longer_counts() -> None:
    stock = PreparedWork(unit=32 * MIB, calls=8)
    before = pairs(*[1.0] * 12)
    assert stock.hidden_ns(before, []) == 0.0
    assert stock.hidden_ns(before, calls(1.0, 9.0)) == 0.0
    assert stock.hidden_ns(before, calls(3.0, 9.0)) == pytest.approx(2 * MS)
    assert stock.unknown_ns(0, 1e10) > 0


def test_too_few_calls_are_no_excuse() -> None:
    stock = PreparedWork(unit=1e7, calls=50)
    assert stock.unknown_ns(20, 1e10) == pytest.approx(2 * MS)
    assert stock.unknown_ns(stock.calls_to_make, 1e10) == 0.0


def test_a_charge_never_raises_anything() -> None:
    row: dict[str, Any] = {"baseline_ms": 10.0, "speedup": [8.0, 4.0, 20.0]}
    charge(row, 20.0 * MS)
    point, low, high = row["speedup"]
    assert low < point < 1 < high == 20.0 and "20 ms" in row["prepared"]


def test_what_is_not_known_is_charged_at_the_low_end_only() -> None:
    row: dict[str, Any] = {"baseline_ms": 10.0, "speedup": [8.0, 4.0, 20.0]}
    charge(row, 0.0, unknown_ns=2.5 * MS)
    assert row["speedup"] == [8.0, 2.0, 20.0] and "2.5 ms" in row["unknown"]
