"""The sign of work left on a device: the referee's own work takes longer right after the candidate's turn."""

from __future__ import annotations

from bottega.judge.rounds import Rounds, left_behind

MILLISECOND = 1_000_000


def test_equal_settling_accuses_nobody() -> None:
    assert left_behind(Rounds(settles={"candidate": [MILLISECOND] * 8, "eager": [MILLISECOND] * 8})) == ""


def test_work_left_behind_is_told_with_both_times() -> None:
    told = left_behind(Rounds(settles={"candidate": [4 * MILLISECOND] * 8, "eager": [MILLISECOND] * 8}))
    assert "1 ms" in told
    assert "4 ms" in told


def test_a_few_slow_ones_are_the_machine_s() -> None:
    settles = {"candidate": [MILLISECOND] * 6 + [50 * MILLISECOND] * 3, "eager": [MILLISECOND] * 9}
    assert left_behind(Rounds(settles=settles)) == ""


def test_too_few_rounds_say_nothing() -> None:
    assert left_behind(Rounds(settles={"candidate": [90 * MILLISECOND] * 3, "eager": [MILLISECOND] * 3})) == ""
    assert left_behind(Rounds()) == ""
