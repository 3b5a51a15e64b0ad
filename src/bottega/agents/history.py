"""What a writer sees of an earlier turn: kernel, summary and the judge's diagnosis. Old reasoning is gone for good."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.agents.answers.fences import fenced
from bottega.agents.budget import shortened


@dataclass(frozen=True)
class Past:
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
    def told(self) -> str:
        """`faster 1.32x (1.28 to 1.36)`."""
        if self.speedup is None:
            return self.outcome
        spread = f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else ""
        return f"{self.outcome} {self.speedup:.2f}x{spread}"


def turn_values(past: Past, title: str, source: bool = True, longest: int | None = None) -> dict[str, str]:
    """A turn as the values of a template's `turn` part; `longest` shortens what was said about it."""
    return {
        "title": title,
        "outcome": past.told,
        "summary": shortened(past.summary, longest),
        "diagnosis": shortened(past.diagnosis, longest),
        "source": fenced(past.source, "python") if source else "",
    }
