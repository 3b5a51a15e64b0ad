"""Signs against a candidate in its timed rounds, work left on a device or a forged clock: what is seen once is looked at again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.judge import examination
from bottega.judge.clocks import Pair
from bottega.judge.invalid import InvalidTask
from bottega.judge.rounds import Rounds, left_behind, take_turn
from bottega.judge.runner import SideFailed

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


class Baseline:
    """Takes so long, or fails."""

    def __init__(self, name: str, inner_ms: float = 1.0, fails: str = "") -> None:
        self.name, self.inner_ms, self.fails, self.turns = name, inner_ms, fails, 0

    def play(self, drawn: object, terms: object, keep: bool = False, look: object = ()) -> Any:
        self.turns += 1
        if self.fails:
            raise SideFailed(self.fails)
        return SimpleNamespace(inner_ns=self.inner_ms * MILLISECOND)


@pytest.mark.parametrize("kind", ["died", "forged"])
def test_a_baseline_that_is_lost_is_no_fault_of_the_candidate(kind: str) -> None:
    with pytest.raises(InvalidTask, match="eager"):
        take_turn(Baseline("eager", fails=kind), None, None)  # type: ignore[arg-type]
    with pytest.raises(SideFailed):
        take_turn(Baseline("candidate", fails=kind), None, None)  # type: ignore[arg-type]


def timed_without(monkeypatch: pytest.MonkeyPatch, baseline: Baseline, row: dict[str, Any], alone_ms: float) -> list[str]:
    """What became of the candidate's process, when a baseline is doubted that was measured as `row` says."""
    done: list[str] = []

    def gone(deadline: float) -> None:
        raise SideFailed("died")

    monkeypatch.setattr(examination.Examination, "_terms", lambda self: None)
    one = object.__new__(examination.Examination)
    known = SimpleNamespace(alone_ms=alone_ms)
    one.bench = SimpleNamespace(draw=lambda variant: None, baselines={"eager": baseline}, known=known)  # type: ignore[assignment]
    one.side = SimpleNamespace(reins=SimpleNamespace(kill=lambda: done.append("killed")), listen=gone)  # type: ignore[assignment]
    one.found = {"timing": {"eager": row}, "trials": [{"variant": "plain", "skipped": ""}]}
    one._time_without_it()
    return done


def test_a_baseline_that_is_quicker_without_the_candidate_makes_nobody_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}
    assert timed_without(monkeypatch, Baseline("eager", 2.0), row, alone_ms=2.0) == ["killed"]
    assert row["speedup"] == [1.0, 0.8, 6.0] and "10 ms beside the candidate and 2 ms without it" in str(row["beside"])


def test_a_baseline_that_is_slow_without_the_candidate_too_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}
    assert timed_without(monkeypatch, Baseline("eager", 9.0), row, alone_ms=2.0) == ["killed"]
    assert row == {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}


@pytest.mark.parametrize(
    "row", [{"speedup": [1.0, 0.9, 6.0], "baseline_ms": 10.0}, {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 2.5}]
)
def test_nobody_is_doubted_without_need(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]) -> None:
    baseline = Baseline("eager", 1.0)
    assert timed_without(monkeypatch, baseline, row, alone_ms=2.0) == [] and not baseline.turns


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
