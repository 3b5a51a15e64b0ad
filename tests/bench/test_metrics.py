"""The figures of a run: each worked out by hand from a handful of attempts."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log, sqrt

import pytest
from worked import attempt, run_of, verdict

from bottega.bench.attempt import BenchAttempt
from bottega.bench.caveats import judge_versions
from bottega.bench.metrics import baselines_of, summary
from bottega.bench.scaling import THRESHOLDS
from bottega.core.files import json_text
from bottega.core.verdict import BEST, TIME_AGAIN, Speedup

FOUR = {
    "a": [["incorrect", 2.0], [None, 1.1]],
    "b": [[(1.1, 0.9, 1.3), "compile_error"], ["timeout", (1.05, 1.01, 1.09)]],
    "c": [["rejected", "incorrect"], ["compile_error", None]],
    "d": [[0.5, 0.6], ["runtime_error", 0.4]],
}
"""Four tasks, two samples of two turns each. Best points: 2.0, 1.1, none, 0.6. Best low ends: 1.98, 1.01, none, 0.594."""


def test_shares_and_speedups_by_hand() -> None:
    found = summary(run_of(FOUR), resamples=100).every
    assert (found.tasks, found.unattempted) == (4, 0)
    assert found.compiled.point == 1  # c's first answer was rejected, which comes after the build
    assert found.correct.point == 3 / 4
    assert {p: found.fast[p].point for p in THRESHOLDS} == {0: 0.75, 0.8: 0.5, 1: 0.5, 1.2: 0.25, 1.5: 0.25, 2: 0, 3: 0}
    assert {p: found.sure[p].point for p in THRESHOLDS} == {0: 0.75, 0.8: 0.5, 1: 0.5, 1.2: 0.25, 1.5: 0.25, 2: 0, 3: 0}
    speeds = found.speeds
    assert speeds.geometric_mean.point == pytest.approx((2.0 * 1.1 * 0.6) ** (1 / 3))
    assert (speeds.geometric_mean.over, speeds.median.over) == (3, 3)
    assert speeds.median.point == pytest.approx(1.1)
    assert speeds.mean.point == pytest.approx((2.0 + 1.1 + 0 + 0.6) / 4)
    # A user keeps a's 2.0 and b's 1.05, whose interval is above 1, and the modules c and d as they are.
    assert speeds.kept.point == pytest.approx((2.0 * 1.05) ** (1 / 4))
    assert speeds.kept_median.point == pytest.approx((1 + 1.05) / 2)
    assert found.coverage.point == 0.5
    assert found.coverage.over == 3


def test_a_speedup_of_just_p_is_not_above_p() -> None:
    found = summary(run_of({"a": [[(2.0, 1.5, 2.5)]]}), resamples=10).every
    assert (found.fast[1.5].point, found.fast[2.0].point) == (1, 0)
    assert (found.sure[1.2].point, found.sure[1.5].point) == (1, 0)


def test_the_two_senses_of_faster_stand_side_by_side() -> None:
    found = summary(run_of({"a": [[(1.2, 0.9, 1.5)]], "b": [[(1.2, 1.1, 1.3)]]}), resamples=10).every
    assert (found.fast[1.0].point, found.sure[1.0].point) == (1, 0.5)


def test_what_may_not_have_been_built_is_not_compiled() -> None:
    told = {name: [[name]] for name in ("incorrect", "runtime_error", "rejected", "compile_error", "timeout", "invalid_task")}
    assert summary(run_of({**told, "none": [[None]]}), resamples=10).every.compiled.point == 3 / 7


def test_endings_are_counted_honestly() -> None:
    found = summary(run_of(FOUR), resamples=10).every
    assert found.outcomes == {"faster": 3, "slower": 3, "ambiguous": 1, "incorrect": 2, "compile_error": 2, "runtime_error": 1,
                              "timeout": 1, "rejected": 1, "no_kernel": 2}  # fmt: skip
    assert sum(found.outcomes.values()) == 16
    assert found.task_outcomes == {"faster": 2, "slower": 1, "rejected": 1}


def test_pass_at_k_by_hand() -> None:
    found = summary(run_of(FOUR), resamples=10).every
    # Samples with a right kernel: a 2 of 2, b 2 of 2, c 0 of 2, d 2 of 2. Faster by the point: a 2, b 2. Surely: a 2, b 1.
    assert {k: each.point for k, each in found.pass_correct.items()} == {1: 0.75, 2: 0.75}
    assert {k: each.point for k, each in found.pass_fast.items()} == {1: 0.5, 2: 0.5}
    assert {k: each.point for k, each in found.pass_sure.items()} == {1: (1 + 1 / 2) / 4, 2: 2 / 4}


def test_turns_by_hand() -> None:
    found = summary(run_of(FOUR), resamples=10).every
    # First turns right: a 0/2, b 1/2, c 0/2, d 1/2. Second turns: a 2/2, b 1/2, c 0/2, d 2/2.
    assert [cell.correct.point for cell in found.by_turn] == [(0.5 + 0.5) / 4, (1 + 0.5 + 1) / 4]
    # Right by the second turn: a 2/2, b 2/2, d 2/2.
    assert [cell.correct.point for cell in found.best_by_turn] == [(0.5 + 0.5) / 4, 3 / 4]
    assert [cell.answers for cell in found.by_turn] == [8, 8]
    assert [cell.correct.point for cell in found.best_of_n] == [3 / 4, 3 / 4]


def test_what_it_took() -> None:
    found = summary(run_of(FOUR), resamples=10).every.spending
    assert (found.tasks, found.answers) == (4, 16)
    assert (found.money.total, found.money.mean, found.money.median) == (8, 2, 2)
    assert (found.prompt_tokens.mean, found.output_tokens.mean, found.seconds.mean) == (400, 40, 8)


def test_levels_and_families_stand_apart() -> None:
    tasks = {"a": {"level": 1, "family": "norm"}, "b": {"level": 1, "family": "matmul"}, "c": {"level": 2, "family": "norm"},
             "d": {"level": None, "family": ""}}  # fmt: skip
    found = summary(run_of(FOUR, tasks), resamples=10)
    assert [(group.name, group.fit_only) for group in found.groups] == [
        (name, fit) for name in ("all", "level 1", "level 2", "no level") for fit in (False, True)
    ]
    assert [group.correct.point for group in found.groups[2::2]] == [1, 0, 1]
    assert [(each.name, each.tasks) for each in found.families] == [("norm", 2), ("matmul", 1), ("no family", 1)]
    norm = found.families[0]
    assert (norm.correct.point, norm.fast.point, norm.sure.point) == (0.5, 0.5, 0.5)
    unsure = summary(run_of({"a": [[(1.2, 0.9, 1.5)]]}), resamples=10).families[0]
    assert (unsure.fast.point, unsure.sure.point) == (1, 0)
    assert norm.outcomes == {"faster": 2, "incorrect": 2, "compile_error": 1, "rejected": 1, "no_kernel": 2}


def test_tasks_that_cannot_be_judged_fairly_are_told_apart() -> None:
    told = {**FOUR, "e": [["invalid_task", "invalid_task"], ["invalid_task", "invalid_task"]]}
    found = summary(run_of(told, {"c": {"fitness": "constant_output"}}), resamples=10)
    assert found.unfit == {"c": "constant_output", "e": "the judge could not use the task"}
    assert (found.every.tasks, found.fit.tasks) == (5, 3)
    assert (found.every.correct.point, found.fit.correct.point) == (3 / 5, 1)
    assert found.every.outcomes["invalid_task"] == 4
    assert any("2 tasks cannot be judged fairly" in note for note in found.notes)


def test_a_task_without_attempts_is_a_failure_and_is_named() -> None:
    run = run_of({**FOUR, "e": []}, {"e": {"trouble": "the device was lost"}})
    found = summary(run, resamples=10)
    assert found.every.correct.point == 3 / 5
    assert found.every.pass_correct[1].point == 3 / 5
    assert found.every.unattempted == 1
    assert found.every.task_outcomes["no_attempt"] == 1
    assert found.troubled == {"e": "the device was lost"}
    assert any("1 task has no attempt" in note and "task e" in note for note in found.notes)


def test_missing_samples_count_as_failed_and_are_told() -> None:
    found = summary(run_of({"a": [[2.0], [2.0]], "b": [[2.0]]}), resamples=10)
    assert found.every.pass_correct[1].point == (1 + 1 / 2) / 2
    assert any("1 task has fewer than 2 attempts" in note for note in found.notes)


def test_kernels_that_were_timed_on_a_busy_machine_are_told() -> None:
    run = run_of({"a": [[2.0], [2.0]]})
    first, second = run.attempts
    assert first.verdict is not None
    busy = replace(first.verdict, notes=(f"timing: the machine was busy; {TIME_AGAIN}",))
    found = summary(replace(run, attempts=(replace(first, verdict=busy), second)), resamples=10)
    assert any("1 of 2 kernels were timed while others had the machine" in note for note in found.remarks)
    assert not any("others had the machine" in note for note in summary(run, resamples=10).remarks)


def test_against_the_best_baseline_it_is_said_which_that_was() -> None:
    run = run_of({"a": [[2.0]], "b": [[2.0]], "c": [[2.0]]})
    names = iter(("compile", "eager", "compile"))
    attempts = tuple(
        replace(one, verdict=replace(one.verdict, speedup={BEST: one.verdict.speedup["eager"]}, fastest_baseline=next(names)))
        for one in run.attempts
        if one.verdict is not None
    )
    assert any(
        "compile of 2, eager of 1 tasks" in note
        for note in summary(replace(run, attempts=attempts), BEST, resamples=10).remarks
    )
    assert not any("best baseline" in note for note in summary(run, resamples=10).remarks)


def test_an_empty_run_and_one_without_attempts_have_no_figures_and_say_so() -> None:
    empty = summary(run_of({}), resamples=10)
    assert empty.every.correct.point is None
    assert "the run has no tasks" in empty.notes[0]
    begun = summary(run_of({"a": [], "b": []}), resamples=10)
    assert begun.every.correct.point == 0
    assert begun.every.speeds.geometric_mean.point is None
    assert begun.every.speeds.kept.point == pytest.approx(1)
    assert "no task has an attempt yet" in begun.notes[0]
    for found in (empty, begun):
        json.loads(json_text(found.to_json()))


def test_right_but_not_timed_is_right_and_no_more() -> None:
    run = run_of({"a": [[2.0]], "b": [[2.0]]})
    against_compile = summary(run, "compile", resamples=10)
    assert against_compile.every.correct.point == 1
    assert against_compile.every.fast[0.8].point == 0
    assert against_compile.every.speeds.geometric_mean.point is None
    assert any("2 of 2 right kernels were not timed against compile" in note for note in against_compile.notes)


def test_both_baselines_are_known() -> None:
    run = run_of({"a": []})
    assert baselines_of(run) == ("eager",)
    both = replace(run, attempts=(attempt("a", 0, 0, 2.0, baselines=("compile", "eager")),))
    assert baselines_of(both) == ("eager", "compile")
    tuned = replace(
        run,
        settings={"baselines": ["best", "eager"]},
        attempts=(attempt("a", 0, 0, 2.0, baselines=("eager", "compile", "autotune", "best")),),
    )
    assert baselines_of(tuned) == ("best", "eager", "compile", "autotune")  # the first is what outcomes speak of


def test_figures_are_taken_against_each_baseline_and_left_out_ones_are_told() -> None:
    left_out = replace(
        verdict(2.0, ("best", "eager")), speedup={"best": Speedup(1.5, 1.4, 1.6), "eager": Speedup(2.5, 2.4, 2.6)},
        notes=("baseline: compile was left out, for it raises Unsupported: x; best is the fastest of the others",),
    )  # fmt: skip
    run = run_of({"a": []})
    run = replace(run, attempts=(replace(attempt("a", 0, 0, 2.0), verdict=left_out),), settings={"baselines": ["best"]})
    assert summary(run, "best", resamples=10).every.fast[2.0].point == 0
    assert summary(run, "eager", resamples=10).every.fast[2.0].point == 1
    assert any("of 1 kernel a baseline could not be run" in note for note in summary(run, "best", resamples=10).notes)


def test_an_interval_end_that_json_lost_says_nothing() -> None:
    run = run_of({"a": [[(2.0, 1.0, float("inf"))]]})
    lines = [json.loads(json_text(attempt.to_json())) for attempt in run.attempts]
    again = replace(run, attempts=tuple(map(BenchAttempt.from_json, lines)))
    assert again.attempts[0].verdict.speedup["eager"].high is None  # type: ignore[union-attr]
    assert summary(again, resamples=10).every.fast[1.5].point == 1


def test_other_judges_within_a_run_are_told() -> None:
    run = run_of({"a": [[2.0]]}, judge="1")
    mixed = replace(run, attempts=(*run.attempts, attempt("a", 1, 0, 2.0, judge="2")))
    assert judge_versions(mixed) == ("1", "2")
    assert any("versions 1, 2" in note for note in summary(mixed, resamples=10).notes)


def test_a_card_is_compared_at_the_same_task_and_turn() -> None:
    rows = [attempt("a", 0, 0, 4.0, skills=("tile",)), attempt("a", 1, 0, 2.0), attempt("b", 0, 0, 2.0, skills=("tile",)),
            attempt("b", 1, 0, "incorrect"), attempt("c", 0, 0, 9.0, skills=("tile", "lone")), attempt("c", 0, 1, 1.0)]  # fmt: skip
    found = summary(replace(run_of({"a": [], "b": [], "c": []}), attempts=tuple(rows)), resamples=50).uplifts
    assert [(each.skill, each.answers, each.correct, each.compared) for each in found] == [("tile", 3, 3, 2), ("lone", 1, 1, 0)]
    assert log(found[0].gain.point or 0) == pytest.approx((log(4 / 2) + log(2 / 1)) / 2)
    assert found[1].gain.point is None


@pytest.mark.parametrize("sure", [False, True])
def test_fast_p_falls_with_p_and_best_never_falls_with_turns(sure: bool) -> None:
    found = summary(run_of(FOUR), resamples=10).every
    for shares in [found.sure if sure else found.fast, *((cell.sure if sure else cell.fast) for cell in found.best_by_turn)]:
        points = [shares[p].point or 0 for p in THRESHOLDS]
        assert points == sorted(points, reverse=True)
    series = [(cell.sure if sure else cell.fast)[1.0].point or 0 for cell in found.best_by_turn]
    assert series == sorted(series)
    assert (found.sure[1.0].point or 0) <= (found.fast[1.0].point or 0)


def test_every_interval_holds_its_point() -> None:
    told = summary(run_of({**FOUR, "e": [[sqrt(2), 3.0], ["incorrect", None]]}), resamples=60, seed=7).to_json()
    seen = 0

    def walk(value: object) -> None:
        nonlocal seen
        if isinstance(value, dict):
            if {"point", "low", "high"} <= set(value) and value["low"] is not None:
                seen += 1
                assert value["low"] - 1e-12 <= value["point"] <= value["high"] + 1e-12
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(told)
    assert seen > 100
