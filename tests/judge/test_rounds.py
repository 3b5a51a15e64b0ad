"""Signs against a candidate in its timed rounds, work left on a device or a forged clock: what is seen once is looked at again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.judge import examination
from bottega.judge.clocks import Pair
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


def examined(monkeypatch: pytest.MonkeyPatch, *batches: Rounds) -> tuple[dict[str, Any], int]:
    """What an examination of a GPU's kernel finds in its timed rounds, batch after batch, and how many it ran."""
    taken = iter(batches)
    count = 0

    def rounds(*_: object, **__: object) -> Rounds:
        nonlocal count
        count += 1
        return next(taken)

    monkeypatch.setattr(examination, "run_rounds", rounds)
    monkeypatch.setattr(examination.Examination, "_warm_up", 0, raising=False)
    monkeypatch.setattr(examination.Examination, "_terms", lambda self: None)
    one = object.__new__(examination.Examination)
    one.bench = SimpleNamespace(draw=None, oracle=None, baselines={}, device="cuda", known=SimpleNamespace(alone_ms=0.0))  # type: ignore[assignment]
    one.settings = SimpleNamespace(measured=(), floor=0.0)  # type: ignore[assignment]
    one.side, one.found = None, {"violations": [], "trials": []}  # type: ignore[assignment]
    assert one._rounds([]) is False
    return one.found, count


BUSY = Rounds(settles={"candidate": [4 * MILLISECOND] * 8, "eager": [MILLISECOND] * 8})
QUIET = Rounds(settles={"candidate": [MILLISECOND] * 8, "eager": [MILLISECOND] * 8})


def test_a_device_that_was_busy_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = examined(monkeypatch, BUSY, QUIET)
    assert count == 2 and found["violations"] == []


def test_a_kernel_that_leaves_work_behind_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = examined(monkeypatch, BUSY, BUSY)
    assert count == 2 and [name for name, _ in found["violations"]] == ["work_after_return"]
    assert examined(monkeypatch, QUIET)[1] == 1


def timed(*, hidden_ms: int) -> Rounds:
    outer = (2 + hidden_ms) * MILLISECOND
    return Rounds(pairs={"eager": [Pair(3 * MILLISECOND, 2 * MILLISECOND, MILLISECOND + outer, 2 * MILLISECOND)] * 8})


def test_a_clock_that_looks_forged_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = examined(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=0))
    assert count == 2 and found["violations"] == []
    assert examined(monkeypatch, timed(hidden_ms=0))[1] == 1


def test_rounds_in_which_it_lied_count_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a lie would be a way to have bad rounds thrown away."""
    found, _ = examined(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=0))
    assert len(found["timing"]["eager"]["pairs"]) == 16
    assert found["timing"]["eager"]["speedup"][1] < 0.5


def test_a_clock_that_is_forged_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = examined(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=9))
    assert count == 2 and [name for name, _ in found["violations"]] == ["clock_forged"]


def test_nobody_is_blamed_for_a_device_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    others = replace(BUSY, pairs={"eager": [Pair(6 * MILLISECOND, 1000, 6 * MILLISECOND, 1000, held=MILLISECOND)] * 8})
    found, count = examined(monkeypatch, others)
    assert count == 1 and found["violations"] == [] and found["timing"]["eager"]["shared"]


def test_a_rule_broken_before_anything_was_timed_settles_the_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Rounds(pairs={"eager": []}, violations=[("output_reused", "")])
    monkeypatch.setattr(examination, "run_rounds", lambda *_, **__: ended)
    monkeypatch.setattr(examination.Examination, "_warm_up", 0, raising=False)
    monkeypatch.setattr(examination.Examination, "_terms", lambda self: None)
    one = object.__new__(examination.Examination)
    one.bench = SimpleNamespace(draw=None, oracle=None, baselines={}, device="cpu", known=None)  # type: ignore[assignment]
    one.settings = SimpleNamespace(measured=(), floor=0.0)  # type: ignore[assignment]
    one.side, one.found = None, {"violations": [], "trials": []}  # type: ignore[assignment]
    assert one._rounds([]) is True
    assert one.found["violations"] == [["output_reused", ""]]
