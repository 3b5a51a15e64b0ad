"""A verdict: what the judge found about one candidate on one task, as plain data that survives JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

BEST = "best"
"""The name under which a speedup is against whichever measured baseline is fastest."""

TIME_AGAIN = "time it again"
"""How a note ends that says that the machine was busy."""
LEAST_OWN_SHARE = 0.005
"""Of the work: below it a candidate leaves it to the library, or to the reference that it copied."""


class Outcome(StrEnum):
    """The ten endings. The first four are correct and honest; only they carry a speedup."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    INVALID_TASK = "invalid_task"

    @property
    def accepted(self) -> bool:
        """Correct and honest, whatever its speed."""
        return self in (Outcome.FASTER, Outcome.SAME, Outcome.SLOWER, Outcome.AMBIGUOUS)


@dataclass(frozen=True)
class Speedup:
    """Baseline time over candidate time: a point and the ends of its confidence interval."""

    point: float
    low: float
    high: float


NO_UPPER_END = 100.0
"""The judge's own clock resolves no larger ratio: an interval that reaches it has no upper end."""


def interval_text(low: float, high: float, digits: int = 2) -> str:
    """The ends of a speedup's interval, for people."""
    return f"{low:.{digits}f} to {high:.{digits}f}" if high < NO_UPPER_END else f"{low:.{digits}f}, no upper end"


@dataclass(frozen=True)
class Violation:
    """A rule that the candidate broke, by a stable name, with what was seen."""

    name: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    correct: bool = False
    """Outputs were right wherever they were looked at. A rejected candidate may have computed right values."""
    speedup: dict[str, Speedup] = field(default_factory=dict)
    """By baseline: `eager`, `compile`, `autotune`, `best`. Empty when the candidate was not timed."""
    times_ms: dict[str, float] = field(default_factory=dict)
    """Median times: `candidate`, each baseline, and the roofline `floor`."""
    error: dict[str, Any] = field(default_factory=dict)
    """Numerical error of candidate and reference against the oracle, and what the oracle was."""
    coverage: dict[str, Any] = field(default_factory=dict)
    """Share of the work done by the candidate's own kernels, how that was measured, and their names."""
    violations: tuple[Violation, ...] = ()
    diagnosis: str = ""
    """Written for whoever tries again, person or model."""
    notes: tuple[str, ...] = ()
    """What a reader must know to read the numbers: not timed, parameters seeded, interpreter, precision."""
    sandbox: dict[str, Any] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds spent in each stage of judging."""
    task_id: str = ""
    candidate_id: str = ""
    baseline: str = ""
    """The baseline that the outcome speaks of; empty when the candidate was not timed."""
    fastest_baseline: str = ""
    """Of those that were measured, the one that is hardest to beat."""
    memory: dict[str, int] = field(default_factory=dict)
    """Most bytes of a GPU that were taken, by who took them; empty for small tasks and on a CPU."""
    profile: dict[str, Any] = field(default_factory=dict)
    """Where the time goes and what the bottleneck is, for a verdict that asked for it; see `judge/profile.py`. No part of the decision."""

    @property
    def does_own_work(self) -> bool:
        """Own kernels do a part of the work, or all that is beside library products; where that was not measured, it at least has kernels."""
        share = self.coverage.get("share")
        if share is None or not math.isfinite(share):
            return bool(self.coverage.get("own", True))
        return share >= LEAST_OWN_SHARE or bool(self.coverage.get("beside_products"))

    @property
    def disturbed(self) -> bool:
        """Whether others had the cores while it was timed, so that its point says little."""
        return any(note.endswith(TIME_AGAIN) for note in self.notes)

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "outcome": self.outcome.value,
            "violations": [asdict(v) for v in self.violations],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        return cls(
            **{
                **_named_baselines(data),
                **data,
                "outcome": Outcome(data["outcome"]),
                "speedup": {name: Speedup(**interval) for name, interval in data.get("speedup", {}).items()},
                "violations": tuple(Violation(**violation) for violation in data.get("violations", [])),
                "notes": tuple(data.get("notes", [])),
            }
        )


def _named_baselines(data: dict[str, Any]) -> dict[str, str]:
    """Verdicts of older judges name neither: the outcome spoke of the first that was asked for, and `best` was not known."""
    speedup = {name: row["point"] for name, row in data.get("speedup", {}).items()}
    asked = data.get("fingerprint", {}).get("settings", {}).get("baselines", [])
    first = next((name for name in (*asked, *speedup) if name in speedup), "")
    known = {name: point for name, point in speedup.items() if name != BEST and point is not None}
    return {"baseline": first, "fastest_baseline": min(known, key=known.__getitem__, default="")}
