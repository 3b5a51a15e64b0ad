"""Every outcome from an examination written by hand, and what the verdict carries beside it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.decide import decide
from bottega.judge.settings import Settings
from bottega.languages import candidate_from

TASK = Task("class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n")
PLAIN = candidate_from("class ModelNew: pass")
KERNEL = candidate_from("from bottega.runtime import cpp\nlibrary = cpp('extern \"C\" void fused(float* x) {}')")
ERROR = {"relative": 1e-7, "reference_relative": 2e-7, "worst_element": 1e-6, "limit": 5e-5}


def trial(**changes: Any) -> dict[str, Any]:
    return {"variant": "plain", "skipped": "", "problem": "", "violations": [], "errors": [ERROR], **changes}


def found(speedup: tuple[float, float, float] = (1.5, 1.4, 1.6), **changes: Any) -> dict[str, Any]:
    row = {"speedup": list(speedup), "baseline_ms": 3.0, "candidate_ms": 2.0, "clock": "inner", "pairs": []}
    return {
        "trials": [trial(), trial(variant="mixed")],
        "violations": [],
        "stages": {"build": 0.1},
        "notes": [],
        "facts": {"bytes_per_second": 1e9, "input_bytes": 500_000, "output_bytes": 400_000, "parameter_bytes": 100_000},
        "parameters": "loaded",
        "mismatch": "",
        "oracle": "fp64",
        "timing": {"eager": row},
        "coverage": {"share": 0.9, "method": "samples", "own": ["fused"], "hottest": [["own kernels", 0.9]]},
        **changes,
    }


def verdict_of(
    examination: dict[str, Any], candidate: Candidate = PLAIN, ending: dict | None = None, **settings: Any
) -> Verdict:
    return decide(TASK, candidate, Settings(**settings), examination, ending)


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [
        ((1.5, 1.4, 1.6), Outcome.FASTER),
        ((1.0, 0.98, 1.02), Outcome.SAME),
        ((0.5, 0.4, 0.6), Outcome.SLOWER),
        ((1.1, 0.9, 1.3), Outcome.AMBIGUOUS),
    ],
)
def test_the_four_good_endings(interval: tuple[float, float, float], outcome: Outcome) -> None:
    verdict = verdict_of(found(interval))
    assert verdict.outcome is outcome
    assert verdict.correct
    assert (verdict.speedup["eager"].point, verdict.speedup["eager"].low, verdict.speedup["eager"].high) == interval
    assert verdict.violations == ()
    assert (verdict.task_id, verdict.candidate_id) == (TASK.id, PLAIN.id)


def failed(**failure: Any) -> dict[str, Any]:
    return {"trials": [], "violations": [], "stages": {}, "notes": [], "facts": {}, "failure": {"text": "", **failure}}


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ({"kind": "timeout"}, Outcome.TIMEOUT),
        ({"kind": "died"}, Outcome.RUNTIME_ERROR),
        ({"kind": "failure", "stage": "import", "type": "SyntaxError", "compiling": True}, Outcome.COMPILE_ERROR),
        ({"kind": "failure", "stage": "import", "type": "NameError", "compiling": False}, Outcome.COMPILE_ERROR),
        ({"kind": "failure", "stage": "construct", "type": "TypeError", "compiling": False}, Outcome.RUNTIME_ERROR),
        ({"kind": "failure", "stage": "forward", "type": "ValueError", "compiling": False}, Outcome.RUNTIME_ERROR),
        ({"kind": "failure", "stage": "forward", "type": "CompileError", "compiling": True}, Outcome.COMPILE_ERROR),
        ({"kind": "forged", "text": "it spoke"}, Outcome.REJECTED),
    ],
    ids=str,
)
def test_the_endings_of_a_broken_candidate(failure: dict[str, Any], outcome: Outcome) -> None:
    verdict = verdict_of(failed(**failure))
    assert verdict.outcome is outcome
    assert not verdict.correct
    assert verdict.speedup == {}
    assert verdict.diagnosis


def test_a_failure_of_no_known_kind_is_never_a_good_ending() -> None:
    """A failure's text comes out of the candidate's process; an odd one must not read as success."""
    for kind in ("", "odd", None):
        for examination in (failed(kind=kind), found(failure={"kind": kind, "text": ""})):
            verdict = verdict_of(examination)
            assert not verdict.outcome.accepted, kind
            assert not verdict.correct


def test_a_failure_after_good_trials_is_not_correct() -> None:
    verdict = verdict_of(found(failure={"kind": "died"}), ending={"signal": 11})
    assert verdict.outcome is Outcome.RUNTIME_ERROR
    assert not verdict.correct
    assert verdict.speedup == {}


def test_wrong_values_are_incorrect() -> None:
    wrong = found(problem="on plain inputs: the output is wrong", trials=[trial(problem="the output is wrong")], timing={})
    verdict = verdict_of(wrong)
    assert verdict.outcome is Outcome.INCORRECT
    assert not verdict.correct
    assert "The output is wrong" in verdict.diagnosis or "the output is wrong" in verdict.diagnosis


def test_no_trial_that_counted_is_no_proof() -> None:
    assert not verdict_of(found(trials=[])).correct
    assert not verdict_of(found(trials=[trial(skipped="the reference raises on it")])).correct


@pytest.mark.parametrize(
    "name", ["late_write", "input_mutated", "output_aliases_input", "clock_forged", "work_after_return", "baseline_disturbed"]
)
def test_dishonest_conduct_is_rejected_whatever_the_values(name: str) -> None:
    for examination in (found(violations=[[name, "seen"]]), found(violations=[[name, "seen"]], problem="the output is wrong")):
        verdict = verdict_of(examination)
        assert verdict.outcome is Outcome.REJECTED
        assert [violation.name for violation in verdict.violations] == [name]
        assert verdict.speedup == {}
        assert name in verdict.diagnosis.lower()


def test_lower_precision_is_named() -> None:
    verdict = verdict_of(found(problem="the output is wrong", precision_suspect=True, trials=[trial(problem="x")]))
    assert verdict.outcome is Outcome.INCORRECT
    assert "precision_downgrade" in {violation.name for violation in verdict.violations}


def test_decoys_are_rejected_with_or_without_a_required_share() -> None:
    decoy = found(coverage={"share": 0.001, "method": "samples", "own": [], "hottest": []})
    for settings in ({}, {"require_kernel": 0.0}):
        verdict = verdict_of(decoy, KERNEL, **settings)
        assert verdict.outcome is Outcome.REJECTED
        assert verdict.violations[0].name == "decoy_kernel"
        assert "fused" in verdict.violations[0].detail
    assert verdict_of(decoy, PLAIN).outcome is Outcome.FASTER  # it claims nothing


def test_a_required_share_is_required() -> None:
    half = found(coverage={"share": 0.5, "method": "samples", "own": ["fused"], "hottest": []})
    assert verdict_of(half, KERNEL, require_kernel=0.4).outcome is Outcome.FASTER
    verdict = verdict_of(half, KERNEL, require_kernel=0.6)
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.violations[0].name == "coverage_too_low"
    assert verdict.correct  # its values were right; it is no kernel for this purpose


def test_a_required_share_that_was_not_measured_is_not_given() -> None:
    blind = found(coverage={"share": None, "method": "not measured: no permission", "own": [], "hottest": []})
    verdict = verdict_of(blind, KERNEL, require_kernel=0.5)
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.violations[0].name == "coverage_unmeasured"
    assert "no permission" in verdict.violations[0].detail


def test_a_required_share_of_an_untimed_candidate_is_not_given() -> None:
    """Without timing there is no coverage: a text that mentions Triton must not get around the requirement."""
    untimed = {key: value for key, value in found().items() if key not in ("coverage", "timing")}
    verdict = verdict_of(untimed, require_kernel=0.5, timed=False)
    assert "coverage_unmeasured" in {violation.name for violation in verdict.violations}
    assert not verdict.outcome.accepted


def test_untimed_is_ambiguous_and_says_so() -> None:
    untimed = {key: value for key, value in found().items() if key not in ("coverage", "timing")}
    verdict = verdict_of(untimed, timed=False)
    assert verdict.outcome is Outcome.AMBIGUOUS
    assert verdict.correct
    assert any("not timed" in note for note in verdict.notes)
    assert verdict.speedup == {} == verdict.times_ms
    assert verdict.coverage["share"] is None


def test_the_first_baseline_decides() -> None:
    rows = found()["timing"]["eager"]
    timing = {"eager": rows, "compile": {**rows, "speedup": [0.5, 0.4, 0.6], "baseline_ms": 1.0}}
    both = found(timing=timing)
    assert verdict_of(both, baselines=("eager", "compile")).outcome is Outcome.FASTER
    assert verdict_of(both, baselines=("compile", "eager")).outcome is Outcome.SLOWER
    verdict = verdict_of(both, baselines=("eager", "compile"))
    assert set(verdict.speedup) == {"eager", "compile"}
    assert verdict.times_ms == {"candidate": 2.0, "eager": 3.0, "compile": 1.0, "floor": 1.0}


def timing(**speedups: tuple[float, float, float]) -> dict[str, Any]:
    row = found()["timing"]["eager"]
    return {name: {**row, "speedup": list(three), "baseline_ms": 2 * three[0]} for name, three in speedups.items()}


def test_best_is_the_most_cautious_over_what_was_measured() -> None:
    """Each end by itself: the baseline with the lowest point need not have the lowest ends."""
    measured = timing(eager=(2.0, 1.9, 2.1), compile=(1.2, 1.15, 1.4), autotune=(1.3, 1.05, 1.35))
    verdict = verdict_of(found(timing=measured), baselines=("best",))
    assert verdict.outcome is Outcome.FASTER and verdict.baseline == "best" and verdict.fastest_baseline == "compile"
    assert list(verdict.speedup) == ["best", "eager", "compile", "autotune"]
    assert (verdict.speedup["best"].point, verdict.speedup["best"].low, verdict.speedup["best"].high) == (1.2, 1.05, 1.35)
    assert verdict.times_ms["best"] == verdict.times_ms["compile"] == 2.4


def test_best_is_not_won_by_beating_most() -> None:
    measured = timing(eager=(2.0, 1.9, 2.1), compile=(1.5, 1.4, 1.6), autotune=(0.9, 0.85, 0.95))
    assert verdict_of(found(timing=measured), baselines=("best",)).outcome is Outcome.SLOWER
    assert verdict_of(found(timing=measured), baselines=("compile", "best")).outcome is Outcome.FASTER


def test_a_first_baseline_that_cannot_run_gives_way_to_eager_loudly() -> None:
    report = found(timing=timing(eager=(2.0, 1.9, 2.1)), unavailable={"compile": "raises Unsupported: no"})
    verdict = verdict_of(report, baselines=("compile",))
    assert verdict.outcome is Outcome.FASTER and verdict.baseline == "eager" and set(verdict.speedup) == {"eager"}
    words = "baseline: compile was left out, for it raises Unsupported: no. The outcome speaks of eager, and not of compile as was asked"
    assert words in verdict.notes


def test_best_is_over_those_that_run() -> None:
    report = found(
        timing=timing(eager=(2.0, 1.9, 2.1), compile=(1.5, 1.4, 1.6)), unavailable={"autotune": "takes more than 300 s"}
    )
    verdict = verdict_of(report, baselines=("best",))
    assert verdict.baseline == "best" and verdict.speedup["best"].point == 1.5
    assert "baseline: autotune was left out, for it takes more than 300 s; best is the fastest of the others" in verdict.notes


def test_errors_are_summed_up_over_the_variants_that_counted() -> None:
    worse = trial(variant="heavy", errors=[{**ERROR, "relative": 4e-6}])
    verdict = verdict_of(found(trials=[trial(), worse, trial(variant="offset", skipped="not accurate", errors=[])]))
    assert verdict.error["candidate"] == 4e-6
    assert verdict.error["reference"] == 2e-7
    assert verdict.error["limit"] == 5e-5
    assert verdict.error["variants"] == ["plain", "heavy"]
    assert verdict.error["skipped_variants"] == ["offset"]
    assert verdict.error["oracle"] == "fp64"


def test_infinite_errors_are_plain_json() -> None:
    verdict = verdict_of(found(problem="x", trials=[trial(problem="x", errors=[{**ERROR, "relative": math.inf}])]))
    json.dumps(verdict.error, allow_nan=False)
    integers = verdict_of(found(trials=[trial(errors=[{"elements": 5, "unequal": 2, "reference_unequal": 1}])]))
    assert integers.error["unequal_elements"] == 2


@pytest.mark.parametrize(
    ("changes", "settings", "words"),
    [
        ({"parameters": "seeded", "mismatch": "lacks weight"}, {}, "lacks weight"),
        ({}, {}, "loaded by name"),
        ({}, {"precision": "bf16"}, "bf16"),
        ({"oracle": "reference"}, {}, "no fp64 form"),
        ({"conditions": {"throttled": True}}, {}, "throttling"),
        ({"notes": ["something odd"]}, {}, "something odd"),
    ],
)
def test_notes(changes: dict[str, Any], settings: dict[str, Any], words: str) -> None:
    assert any(words in note for note in verdict_of(found(**changes), **settings).notes)


def test_a_verdict_survives_json_from_every_examination() -> None:
    examinations = [found(), failed(kind="died"), failed(kind="timeout"), found(violations=[["late_write", "x"]])]
    for examination in examinations:
        verdict = verdict_of(examination)
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_a_note_says_that_others_use_the_device() -> None:
    crowded = found((1.0, 0.01, 100.0))
    crowded["timing"]["eager"] |= {"clock": "outer", "shared": "2.6 ms a turn"}
    notes = verdict_of(crowded).notes
    assert any("others use the device (2.6 ms a turn)" in note for note in notes)
    assert not any("own clock showed less" in note for note in notes)


def test_a_note_says_that_the_candidate_waited_for_a_core() -> None:
    waiting = found((0.3, 0.1, 1.4))
    waiting["timing"]["eager"] |= {"clock": "outer", "waited": "4.8 ms a call"}
    verdict = verdict_of(waiting)
    assert verdict.outcome is Outcome.AMBIGUOUS
    assert any("waited for a core (4.8 ms a call)" in note for note in verdict.notes)
