"""The rules of the ledger, on states that are written down."""

from __future__ import annotations

from bottega.judge.memory_rules import (
    AGEING_SECONDS,
    MUCH_SMALLER_SECONDS,
    RESERVE_BYTES,
    LedgerEntry,
    LedgerState,
    bytes_to_free,
    can_grant,
    counts_as_empty,
    fits,
    is_blocked,
    shortage,
)

GIB = 1 << 30
NOW = 1000.0


def held(slot: int, gib: float, **more: object) -> LedgerEntry:
    return LedgerEntry(slot, "held", int(gib * GIB), slot, NOW - 100, **more)  # type: ignore[arg-type]


def waits(slot: int, gib: float, seconds: float = 0.0, **more: object) -> LedgerEntry:
    return LedgerEntry(slot, "waiting", int(gib * GIB), slot, NOW - seconds, **more)  # type: ignore[arg-type]


def state(*entries: LedgerEntry, total: float = 24, foreign_bytes: float = 0) -> LedgerState:
    return LedgerState(entries, int(total * GIB) + RESERVE_BYTES, int(foreign_bytes * GIB), NOW)


def test_what_fits_is_let_in_and_what_does_not_waits() -> None:
    me, large = waits(2, 4), waits(3, 5)
    assert can_grant(state(held(1, 20), me), me)
    assert not can_grant(state(held(1, 20), large), large)
    assert shortage(state(held(1, 20), large), large) == GIB
    assert not can_grant(state(held(1, 20), me, foreign_bytes=1), me)


def test_small_ones_go_past_a_large_one_until_it_has_waited_for_long() -> None:
    small, smallest = waits(9, 4), waits(9, 2)
    young, old, oldest = (
        waits(2, 20, seconds) for seconds in (AGEING_SECONDS / 2, 2 * AGEING_SECONDS, 2 * MUCH_SMALLER_SECONDS)
    )
    assert can_grant(state(held(1, 10), young, small), small)
    assert not can_grant(state(held(1, 10), old, small), small)
    assert can_grant(state(held(1, 10), old, smallest), smallest)
    assert not can_grant(state(held(1, 10), oldest, smallest), smallest)
    assert can_grant(state(held(1, 3), old, small), old)


def test_nobody_waits_behind_one_whom_only_other_processes_keep_out() -> None:
    old, small = waits(2, 20, 60), waits(9, 2)
    crowded = state(held(1, 2), old, small, foreign_bytes=10)
    assert is_blocked(crowded, old) and not is_blocked(crowded, small)
    assert can_grant(crowded, small)
    beside_a_model = state(held(1, 10, persistent=True), old, small)
    assert is_blocked(beside_a_model, old)
    assert can_grant(beside_a_model, small)


def test_the_whole_gpu_is_had_when_everybody_but_persistent_ones_has_gone() -> None:
    whole = waits(5, 24, 60, whole=True)
    assert not fits(state(held(1, 1), whole), whole)
    assert shortage(state(held(1, 1), held(2, 2, persistent=True), whole), whole) == GIB
    assert fits(state(held(2, 1, persistent=True), whole), whole)
    assert not fits(state(held(2, 4, persistent=True), whole), whole)  # it may still shrink, for a while
    small = waits(9, 1)
    assert not can_grant(state(whole, small), small)
    mine = held(5, 24, whole=True)
    assert not can_grant(state(mine, small), small)


def test_what_others_should_give_back_is_what_the_first_lacks_who_can_be_served() -> None:
    assert bytes_to_free(state(held(1, 20))) == 0
    assert bytes_to_free(state(held(1, 20), waits(2, 6))) == 2 * GIB
    assert bytes_to_free(state(held(1, 20), waits(2, 23), waits(3, 6), foreign_bytes=2)) == 4 * GIB


def test_a_little_is_always_taken_of_an_empty_gpu() -> None:
    assert counts_as_empty(8 * GIB, 7 * GIB)
    assert not counts_as_empty(8 * GIB, 6 * GIB)
    assert counts_as_empty(140 * GIB, 130 * GIB)
    assert not counts_as_empty(140 * GIB, 120 * GIB)
