"""What `optimize` says while it searches and when it is over: every speed with what it is against."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from bottega.app.judge_command import show
from bottega.app.optimize_command import show_finished, speed_line
from bottega.app.optimize_display import OptimizeProgress
from bottega.core.event import AgentStepped, EpisodeEnded, Judged, RunStarted, Wrote
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.result import Interval

ONLY_EAGER = Verdict(
    Outcome.SLOWER,
    True,
    {"compile": Speedup(0.8, 0.7, 0.9), "eager": Speedup(2.0, 1.9, 2.1)},
    notes=("baseline: autotune was left out, for it raises [bold]: no",),
    baseline="compile",
    fastest_baseline="compile",
)


def test_a_verdict_is_told_with_what_it_speaks_of_and_eager_beside_it() -> None:
    progress = OptimizeProgress(BudgetCaps(), "compile")
    line = progress.on_event(Judged("e/judge/s0", "e", "s0", ONLY_EAGER))
    assert "slower 0.80× (0.70 to 0.90) against compile, 2.00× (1.90 to 2.10) against eager" in line
    assert progress.best == ""
    final = progress.on_event(Judged("e/final/x", "e", "s0", ONLY_EAGER))
    assert "judged again: s0  slower 0.80× (0.70 to 0.90) against compile" in final


def test_an_answer_that_took_long_is_told_before_its_verdict() -> None:
    progress = OptimizeProgress(BudgetCaps(), "eager")
    turn = Turn("write", "", source="x = 1", output_tokens=700)
    assert progress.on_event(Wrote("a", "e", "s0", None, 0, turn, 3.0)) == ""
    assert "s1 was written in 95 s, 700 tokens" in progress.on_event(Wrote("b", "e", "s1", None, 0, turn, 95.0))
    assert progress.on_event(Wrote("c", "e", "draft1", None, 0, turn, 95.0, author="compiler 2")) == ""


def test_the_best_so_far_is_the_best_against_what_is_to_be_beaten() -> None:
    progress = OptimizeProgress(BudgetCaps(), "compile")
    fallen_back = Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.9, 2.1)}, baseline="eager")
    assert "faster 2.00× (1.90 to 2.10) against eager" in progress.on_event(Judged("e/judge/s0", "e", "s0", fallen_back))
    assert progress.best == ""


def result(**changes: object) -> SimpleNamespace:
    interval = Interval(point=2.0, low=1.9, high=2.1)
    facts = {
        "outcome": "none", "writers": {}, "ended": "all turns taken", "missed": "No kernel surely beats compile, which was asked for.",
        "kept": "faster_than_eager.py", "kept_claim": {"eager": interval}, "fastest_baseline": "compile", "load": "load", "check": "x",
        "claim": {"best": interval}, "author": "the model", "refused": "",
    }  # fmt: skip
    return SimpleNamespace(**{**facts, **changes})


def test_the_last_words_name_what_was_to_be_beaten_and_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    show_finished(SimpleNamespace(result=result(), folder=Path("run"), error=""))
    told = capsys.readouterr().out
    assert "No kernel surely beats compile, which was asked for." in told
    assert "run/faster_than_eager.py surely beats eager and is kept: module = faster_than_eager.load(original)" in told
    assert "2.00× the speed of eager" in told and "module as it is" not in told


def test_the_best_is_called_by_its_name() -> None:
    words = "2.00× the speed of best, which is compile here (99 % interval 1.90 to 2.10)"
    assert speed_line("best", Interval(point=2.0, low=1.9, high=2.1), "compile") == words


def test_a_verdict_on_a_terminal_says_which_baseline_won_and_which_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show(ONLY_EAGER, "candidate.py")
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "slower against compile" in told and "fastest baseline compile" in told
    assert "autotune was left out, for it raises [bold]: no" in told


def test_verdicts_are_numbered_as_they_come_and_an_agents_answers_are_told() -> None:
    progress = OptimizeProgress(BudgetCaps(), "compile", drafted=False)
    assert "draft" not in progress.on_event(RunStarted("bottega optimize", {}, {}))
    turn = Turn(role="write", text="", tools=("write", "build"))
    assert "the agent calls write, build in s0r0" in progress.on_event(AgentStepped("e/step/s0r0/0", "e", "s0r0", turn))
    for node in ("s0", "s1"):
        progress.on_event(Wrote(f"e/write/{node}", "e", node, None, 0, turn))
    lines = [progress.on_event(Judged(f"e/judge/{node}", "e", node, ONLY_EAGER)) for node in ("s0", "s1")]
    assert [line.split()[0] for line in lines] == ["1", "2"]


def test_one_answer_that_was_known_is_one_answer() -> None:
    progress = OptimizeProgress(BudgetCaps(), "compile")
    progress.on_event(Judged("e/judge/s1", "e", "s1", ONLY_EAGER, same_as="s0"))
    assert "; 1 answer was a kernel that had been judged" in progress.on_event(EpisodeEnded("e/end", "e", "all turns taken"))
