"""The nouns of a lineage: a step is one optimisation less, an attempt is a step that was tried, an effect is what it was worth."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from bottega.core.verdict import Verdict


@dataclass(frozen=True)
class Effect:
    """How many times as fast a kernel is with the optimisation as without it."""

    point: float
    low: float
    high: float

    @property
    def kind(self) -> str:
        return "gain" if self.low > 1 else "loss" if self.high < 1 else "unclear"

    @property
    def text(self) -> str:
        return f"{self.point:.2f}x ({self.low:.2f} to {self.high:.2f})"


def effect_between(plain: Verdict, optimised: Verdict) -> Effect | None:
    """From two verdicts against the same baseline, whose errors are independent. None where one was not timed."""
    name = next((name for name in optimised.speedup if name in plain.speedup), "")
    if not name:
        return None
    one, other = optimised.speedup[name], plain.speedup[name]
    if min(one.low, one.point, one.high, other.low, other.point, other.high) <= 0:
        return None
    point = one.point / other.point
    below = math.hypot(math.log(one.point / one.low), math.log(other.high / other.point))
    above = math.hypot(math.log(one.high / one.point), math.log(other.point / other.low))
    return Effect(point, point * math.exp(-below), point * math.exp(above))


@dataclass(frozen=True)
class Attempt:
    """A step that was tried from one kernel, backward or forward, and what the judge said."""

    feature: str
    """The technique's name."""
    value: str
    where: str
    source: str
    """The whole candidate that it led to."""
    outcome: str
    correct: bool
    """Right and honest, whatever its speed."""
    effect: Effect | None
    diagnosis: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Attempt:
        effect = data["effect"]
        return cls(**{**data, "effect": Effect(**effect) if effect else None})


@dataclass(frozen=True)
class Step:
    """One optimisation that was taken out: from the kernel with it to the one without."""

    number: int
    """Counted from 1 in the order of the walk: the first one is the expert's outermost optimisation."""
    attempt: Attempt
    before: str
    """The source with the optimisation."""
    opened: tuple[str, ...] = ()
    """Features that could not be taken out before this step, and could be after it."""
    text: dict[str, Any] | None = None
    """What a model said of it as card fields; None for a step of a rule."""
    whole: Effect | None = None
    """In the whole expert kernel, where it lost at its place: others that it goes with had been taken out before it."""

    @property
    def gained(self) -> bool:
        return any(effect is not None and effect.kind == "gain" for effect in (self.attempt.effect, self.whole))

    @property
    def feature(self) -> str:
        return self.attempt.feature

    @property
    def plain(self) -> str:
        return self.attempt.source

    @property
    def provided(self) -> str:
        return f"{self.attempt.feature}={self.attempt.value}" if self.attempt.value else self.attempt.feature

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "attempt": self.attempt.to_json(),
            "before": self.before,
            "opened": list(self.opened),
            "text": self.text,
            "whole": asdict(self.whole) if self.whole else None,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Step:
        whole = Effect(**data["whole"]) if data.get("whole") else None
        attempt = Attempt.from_json(data["attempt"])
        return cls(data["number"], attempt, data["before"], tuple(data["opened"]), data["text"], whole)
