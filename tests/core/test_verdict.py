"""A verdict survives JSON whole; four of its ten endings are good ones."""

from __future__ import annotations

import json
import math

from bottega.core.verdict import NO_UPPER_END, Outcome, Speedup, Verdict, Violation, interval_text
from bottega.judge.clocks import LARGEST_RATIO

FULL = Verdict(
    outcome=Outcome.FASTER,
    correct=True,
    speedup={"eager": Speedup(1.5, 1.4, 1.6), "compile": Speedup(1.1, 1.0, 1.2)},
    times_ms={"candidate": 1.0, "eager": 1.5, "floor": 0.2},
    error={"oracle": "fp64", "candidate": 1e-7, "reference": 2e-7, "limit": 5e-5},
    coverage={"share": 0.98, "method": "samples", "own": ["kernel"], "hottest": [["own kernels", 0.98]]},
    violations=(Violation("late_write", "the output changed"), Violation("decoy_kernel", "ß ∞")),
    diagnosis="two\nlines",
    notes=("one", "two"),
    sandbox={"parts": {"network": True}, "missing": {}},
    fingerprint={"judge": "1", "settings": {"baselines": ["eager"]}},
    stages_s={"build": 0.5},
    task_id="0123",
    candidate_id="4567",
)


def test_verdict_survives_json() -> None:
    text = json.dumps(FULL.to_json(), allow_nan=False)
    assert Verdict.from_json(json.loads(text)) == FULL


def test_empty_verdict_survives_json() -> None:
    for outcome in Outcome:
        verdict = Verdict(outcome)
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_json_is_plain_and_documented() -> None:
    data = FULL.to_json()
    assert type(data["outcome"]) is str
    assert data["speedup"]["eager"] == {"point": 1.5, "low": 1.4, "high": 1.6}
    assert data["violations"][0] == {"name": "late_write", "detail": "the output changed"}
    documented = {"outcome", "correct", "speedup", "times_ms", "error", "coverage", "violations"}
    assert documented | {"diagnosis", "sandbox", "fingerprint"} <= set(data)


def test_ten_outcomes_of_which_four_are_accepted() -> None:
    assert len(Outcome) == 10
    assert {outcome.value for outcome in Outcome if outcome.accepted} == {"faster", "same", "slower", "ambiguous"}


def test_a_verdict_of_an_older_judge_is_read_with_the_baseline_that_it_speaks_of() -> None:
    old = Verdict(
        Outcome.SLOWER,
        True,
        {"eager": Speedup(2.0, 1.9, 2.1), "compile": Speedup(0.8, 0.7, 0.9)},
        fingerprint={"settings": {"baselines": ["compile", "eager"]}},
    ).to_json()
    del old["baseline"], old["fastest_baseline"]
    read = Verdict.from_json(old)
    assert read.baseline == "compile" and read.fastest_baseline == "compile"
    assert Verdict.from_json({**old, "fingerprint": {}}).baseline == "eager"
    untimed = Verdict.from_json({**old, "speedup": {}})
    assert untimed.baseline == "" and untimed.fastest_baseline == ""


def test_an_interval_that_the_clock_does_not_bound_has_no_upper_end() -> None:
    assert interval_text(1.9, 2.1) == "1.90 to 2.10" and interval_text(1.9, 99.0, 3) == "1.900 to 99.000"
    for high in (100 * math.exp(0.02), 151.0, math.inf):
        assert interval_text(9.1, high) == "9.10, no upper end"
    assert NO_UPPER_END == LARGEST_RATIO, "what the judge's clock resolves"
