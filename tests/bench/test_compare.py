"""Two runs, task by task: wins by hand, intervals of differences, and what makes runs hard to compare."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from worked import attempt, run_of

from bottega.bench.compare import compare, sign_of, sign_test
from bottega.core.errors import UsageError
from bottega.core.files import json_text

BASE = run_of(
    {"a": [[2.0]], "b": [[(1.0, 0.8, 1.2)]], "c": [["incorrect"]], "d": [[3.0]], "e": [["incorrect"]], "only": [[1.0]]},
    {"d": {"family": "matmul", "level": 2}, "e": {"family": "matmul", "level": 2, "fitness": "constant_output"}},
    folder=Path("base"),
)
OTHER = run_of(
    {"a": [[4.0]], "b": [[(1.3, 1.1, 1.5)]], "c": [[1.5]], "d": [["rejected"]], "e": [["incorrect"]], "new": [[1.0]]},
    {"d": {"family": "matmul", "level": 2}, "e": {"family": "matmul", "level": 2, "fitness": "constant_output"}},
    folder=Path("other"),
)


def test_wins_losses_and_ties_by_hand() -> None:
    found = compare(BASE, OTHER, resamples=100)
    signs = {pair.task.id: pair.sign for pair in found.pairs}
    # b's intervals 0.8 to 1.2 and 1.1 to 1.5 overlap; c is right only in the other, d only in the base; e in neither.
    assert signs == {"a": "win", "b": "tie", "c": "win", "d": "loss", "e": "tie"}
    every = found.every
    assert (every.tasks, every.wins, every.losses, every.ties, every.gained, every.lost) == (5, 2, 1, 2, 1, 1)
    assert every.sign_test == 1
    assert every.correct.point == 0
    assert every.fast[1.0].point == pytest.approx((3 - 2) / 5)
    assert every.sure[1.0].point == pytest.approx((3 - 2) / 5)
    assert every.ratio.over == 2
    assert every.ratio.point == pytest.approx(((4 / 2) * (1.3 / 1.0)) ** (1 / 2))
    # Kept: base 2, 1, 1, 3, 1; other 4, 1.3, 1.5, 1, 1.
    assert every.kept_ratio.point == pytest.approx((2 * 1.3 * 1.5 / 3) ** (1 / 5))
    assert [task.id for task in found.only_base] == ["only"]
    assert [task.id for task in found.only_other] == ["new"]


def test_groups_and_what_moved() -> None:
    found = compare(BASE, OTHER, resamples=100)
    assert [(group.name, group.tasks) for group in found.groups] == [
        ("all", 5), ("fit to be judged", 4), ("level 1", 3), ("level 2", 2), ("matmul", 2), ("norm", 3)]  # fmt: skip
    assert [pair.task.id for pair in found.pairs] == ["c", "d", "a", "b", "e"]
    json.loads(json_text(found.to_json()))


def test_the_sign_test_by_hand() -> None:
    # Five wins and no loss: two of the 32 ways that five coins fall.
    assert sign_test(5, 0) == pytest.approx(2 / 32)
    assert sign_test(0, 0) == 1
    assert sign_test(3, 3) == 1
    assert sign_test(9, 1) == pytest.approx(2 * (1 + 10) / 1024)


def test_touching_intervals_are_a_tie() -> None:
    assert sign_of((1.0, 0.9, 1.1), (1.2, 1.1, 1.3), (True, True)) == "tie"
    assert sign_of((1.0, 0.9, 1.1), (1.2, 1.11, 1.3), (True, True)) == "win"
    assert sign_of(None, None, (True, True)) == "tie"


def test_the_same_run_twice() -> None:
    found = compare(BASE, BASE, resamples=50)
    assert (found.every.wins, found.every.losses) == (0, 0)
    assert found.every.ratio.point == pytest.approx(1)
    assert any("the same run" in note for note in found.notes)
    # Five tasks and one that did not change say little about a thousand others.
    assert found.every.fast[1.0].low is not None and found.every.fast[1.0].low < 0 < (found.every.fast[1.0].high or 0)


def test_turning_the_runs_round_turns_the_signs() -> None:
    there, back = compare(BASE, OTHER, resamples=50).every, compare(OTHER, BASE, resamples=50).every
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert (there.ratio.point or 0) * (back.ratio.point or 0) == pytest.approx(1)
    assert there.fast[1.0].point == pytest.approx(-(back.fast[1.0].point or 0))


def test_what_makes_runs_hard_to_compare_is_told() -> None:
    same = compare(BASE, replace(OTHER, folder=Path("elsewhere")), resamples=10)
    assert same.notes == ()
    other = replace(
        OTHER,
        fingerprint={**OTHER.fingerprint, "judge": "2", "cpu": "parchment"},
        settings={**OTHER.settings, "samples": 4, "precision": "tf32"},
    )
    notes = "\n".join(compare(BASE, other, resamples=10).notes)
    for part in (
        "version 1 against 1, 2",
        "cpu paper against parchment",
        "precision unknown against tf32",
        "1 against 4 kernels",
    ):
        assert part in notes
    untimed = replace(OTHER, attempts=(attempt("a", 0, 0, 2.0, baselines=("compile",)),))
    assert any(
        "was not timed against eager, only against compile" in note for note in compare(BASE, untimed, resamples=10).notes
    )


def test_runs_without_a_common_task_are_refused() -> None:
    with pytest.raises(UsageError, match="share no task"):
        compare(BASE, run_of({"z": [[1.0]]}))
    with pytest.raises(UsageError, match="share no task"):
        compare(run_of({}), BASE)


def test_a_run_without_attempts_is_compared_and_told() -> None:
    found = compare(BASE, replace(OTHER, attempts=()), resamples=10)
    assert found.every.losses == 3
    assert any("has no attempts" in note for note in found.notes)
