"""What a prompt shows of an earlier turn: kernel, summary and the judge's diagnosis. The model's reasoning is left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bottega.agents.answers.fences import fenced
from bottega.agents.prompt_budget import cut_to_length
from bottega.compiler.strip import stripped
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict

LONGEST = 1200
"""Characters of a diagnosis. The judge puts what matters first."""
UNUSABLE = "unusable_answer"


@dataclass(frozen=True)
class EarlierTurn:
    source: str
    """Empty where the answer held no kernel."""
    summary: str
    """The writer's own words on its change, one paragraph."""
    diagnosis: str
    outcome: str
    """One of the judge's outcomes, or `unusable_answer`."""
    speedup: float | None
    """Against the baseline; None where it was not timed or is not right."""
    interval: tuple[float, float] | None = None

    @property
    def outcome_text(self) -> str:
        """`faster 1.32x (1.28 to 1.36)`."""
        if self.speedup is None:
            return self.outcome
        spread = f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else ""
        return f"{self.outcome} {self.speedup:.2f}x{spread}"


def judged_turn(
    source: str, summary: str, verdict: Verdict, baseline: str | None = None, longest: int = LONGEST
) -> EarlierTurn:
    """Without a baseline the first one of the verdict counts, which is the one its outcome refers to."""
    name = baseline or next(iter(verdict.speedup), "")
    speedup = verdict.speedup.get(name) if verdict.outcome.accepted else None
    return EarlierTurn(
        source=source,
        summary=summary,
        diagnosis=cut_to_length(verdict.diagnosis, longest),
        outcome=verdict.outcome.value,
        speedup=speedup.point if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
    )


def earlier_turn_of(turn: Turn, baseline: str) -> EarlierTurn:
    """Of a turn without a verdict: why its answer could not be used."""
    if turn.verdict is None:
        return EarlierTurn("", turn.summary, turn.fault, UNUSABLE, None)
    return judged_turn(turn.source, turn.summary, turn.verdict, baseline)


def as_written(past: EarlierTurn, task: Task) -> EarlierTurn:
    """Without what the task says already and what is linked, as a trained model writes it."""
    return replace(past, source=stripped(past.source, task.source))


def turn_values(past: EarlierTurn, title: str, source: bool = True, longest: int | None = None) -> dict[str, str]:
    """A turn as the values of a template's `turn` part; `longest` shortens what was said about it."""
    return {
        "title": title,
        "outcome": past.outcome_text,
        "summary": cut_to_length(past.summary, longest),
        "diagnosis": cut_to_length(past.diagnosis, longest),
        "source": fenced(past.source, "python") if source else "",
    }
