"""Feedback: verdicts and unusable answers in one short form."""

from __future__ import annotations

import pytest

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.feedback import UNUSABLE, feedback, outcome_line, past_of_error, past_of_verdict
from bottega.agents.writer import Written, parse
from bottega.core.verdict import Outcome, Speedup, Verdict

WRITTEN = Written("class ModelNew: ...\n", "Fused.")


def test_a_timed_verdict() -> None:
    speedup = {"eager": Speedup(1.324, 1.281, 1.361), "compile": Speedup(1.1, 1.0, 1.2)}
    past = past_of_verdict(WRITTEN, Verdict(Outcome.FASTER, True, speedup, diagnosis="Own kernels do 90% of the work."))
    assert outcome_line(past) == "outcome: faster 1.32x (1.28 to 1.36)"
    assert feedback(past) == "outcome: faster 1.32x (1.28 to 1.36)\nOwn kernels do 90% of the work."
    assert (past.source, past.summary, past.outcome, past.speedup) == (WRITTEN.source, "Fused.", "faster", 1.324)
    assert past_of_verdict(WRITTEN, Verdict(Outcome.FASTER, True, speedup), "compile").speedup == 1.1
    assert past_of_verdict(WRITTEN, Verdict(Outcome.FASTER, True, speedup), "other").speedup is None


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if not outcome.accepted])
def test_only_accepted_kernels_have_a_speedup(outcome: Outcome) -> None:
    past = past_of_verdict(WRITTEN, Verdict(outcome, speedup={"eager": Speedup(9, 8, 10)}, diagnosis="Why."))
    assert past.speedup is None and feedback(past) == f"outcome: {outcome.value}\nWhy."


def test_diagnoses_are_bounded() -> None:
    past = past_of_verdict(WRITTEN, Verdict(Outcome.COMPILE_ERROR, diagnosis="first error\n" + "more\n" * 10_000))
    assert past.diagnosis.startswith("first error") and len(past.diagnosis) <= 1200
    assert len(past_of_verdict(WRITTEN, Verdict(Outcome.TIMEOUT, diagnosis="x" * 5000), longest=100).diagnosis) <= 100


def test_an_untimed_verdict() -> None:
    assert feedback(past_of_verdict(WRITTEN, Verdict(Outcome.AMBIGUOUS, True))) == "outcome: ambiguous"


def test_an_unusable_answer() -> None:
    with pytest.raises(AnswerError) as caught:
        parse("I cannot.")
    past = past_of_error(caught.value)
    assert (past.source, past.outcome, past.speedup) == ("", UNUSABLE, None)
    assert feedback(past).startswith("outcome: unusable_answer\nno_code: The answer holds no code block. Answer with")


def test_reasoning_goes() -> None:
    assert answer_text("<think>a</think>b<Think>c") == "b<Think>c"
    assert answer_text("b\n  <THINK>c") == "b"
    assert answer_text("a </think> b </think> c") == "c"
    assert answer_text("x = '<think>'") == "x = '<think>'"
    assert answer_text("\ufeffa\r\nb\rc") == "a\nb\nc"


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\t c ", 100) == "a b c"
    assert one_line("word " * 100, 20) == "word word word …"
    assert all(len(one_line("x" * 100, longest)) <= longest for longest in range(3, 50))
