"""What the next prompt says of a turn: a verdict, or why there is none, in the same short form."""

from __future__ import annotations

from bottega.agents.answers.answer import AnswerError
from bottega.agents.budget import shortened
from bottega.agents.history import Past
from bottega.agents.writer import Written
from bottega.core.verdict import Verdict

LONGEST = 1200
"""Characters of a diagnosis. The judge puts what matters first."""
UNUSABLE = "unusable_answer"


def past_of_verdict(written: Written, verdict: Verdict, baseline: str | None = None, longest: int = LONGEST) -> Past:
    """A judged turn. Without a baseline the first one of the verdict counts, which is the one its outcome speaks of."""
    name = baseline or next(iter(verdict.speedup), "")
    speedup = verdict.speedup.get(name) if verdict.outcome.accepted else None
    return Past(
        source=written.source,
        summary=written.summary,
        diagnosis=shortened(verdict.diagnosis, longest),
        outcome=verdict.outcome.value,
        speedup=speedup.point if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
    )


def past_of_error(error: AnswerError, longest: int = LONGEST) -> Past:
    """A turn whose answer could not be used: no kernel, and what form is wanted."""
    return Past("", "", shortened(str(error), longest), UNUSABLE, None)


def outcome_line(past: Past) -> str:
    """`outcome: faster 1.32x (1.28 to 1.36)`."""
    return f"outcome: {past.told}"


def feedback(past: Past) -> str:
    """The whole paragraph: the typed line, then the diagnosis."""
    return f"{outcome_line(past)}\n{past.diagnosis}".rstrip()
