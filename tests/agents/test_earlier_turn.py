"""Earlier turns in a prompt: verdicts and unusable answers in one short form."""

from __future__ import annotations

import pytest

from bottega.agents.earlier_turn import UNUSABLE, EarlierTurn, earlier_turn_of, judged_turn
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict

SOURCE = "class ModelNew: ...\n"


def shown(verdict: Verdict, baseline: str | None = None, longest: int = 1200) -> EarlierTurn:
    return judged_turn(SOURCE, "Fused.", verdict, baseline, longest)


def test_a_timed_verdict() -> None:
    speedup = {"eager": Speedup(1.324, 1.281, 1.361), "compile": Speedup(1.1, 1.0, 1.2)}
    turn = shown(Verdict(Outcome.FASTER, True, speedup, diagnosis="Own kernels do 90% of the work."))
    assert turn.outcome_text == "faster 1.32x (1.28 to 1.36)" and turn.diagnosis == "Own kernels do 90% of the work."
    assert (turn.source, turn.summary, turn.outcome, turn.speedup) == (SOURCE, "Fused.", "faster", 1.324)
    assert shown(Verdict(Outcome.FASTER, True, speedup), "compile").speedup == 1.1
    assert shown(Verdict(Outcome.FASTER, True, speedup), "other").speedup is None


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if not outcome.accepted])
def test_only_accepted_kernels_have_a_speedup(outcome: Outcome) -> None:
    turn = shown(Verdict(outcome, speedup={"eager": Speedup(9, 8, 10)}, diagnosis="Why."))
    assert turn.speedup is None and turn.outcome_text == outcome.value


def test_diagnoses_are_bounded() -> None:
    turn = shown(Verdict(Outcome.COMPILE_ERROR, diagnosis="first error\n" + "more\n" * 10_000))
    assert turn.diagnosis.startswith("first error") and len(turn.diagnosis) <= 1200
    assert len(shown(Verdict(Outcome.TIMEOUT, diagnosis="x" * 5000), longest=100).diagnosis) <= 100


def test_an_unusable_answer() -> None:
    turn = earlier_turn_of(Turn("write", "I cannot.", fault="no_code: The answer holds no code block."), "eager")
    assert (turn.source, turn.outcome, turn.speedup) == ("", UNUSABLE, None)
    assert turn.outcome_text == UNUSABLE and turn.diagnosis == "no_code: The answer holds no code block."
