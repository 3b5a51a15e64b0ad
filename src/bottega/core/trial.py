"""A trial: attempts with a skill beside attempts without it, on one task, and what the difference was.

Trials are a card's evidence. They are only ever added, refusals included.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class GainInterval:
    """A gain as a factor: 1.2 means that attempts with the skill were worth 1.2 times those without."""

    point: float
    low: float
    high: float


@dataclass(frozen=True)
class Trial:
    skill: str
    skill_version: int
    kind: str
    """`gate`, or where else it was made."""
    task_id: str
    task_name: str
    sibling: bool
    """The task is not the one that the card was drawn from."""
    baseline: str
    device: str
    judge_version: str
    with_skill: tuple[float, ...]
    """What each attempt was worth, as a factor over the baseline; a failed attempt is worth 1, the module as it was."""
    without_skill: tuple[float, ...]
    """Paired with `with_skill` by seed."""
    gain: GainInterval
    decision: str
    """`admitted`, `refused`, or `unfinished`."""
    reason: str
    at: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Trial:
        return cls(
            **{
                **data,
                "with_skill": tuple(data["with_skill"]),
                "without_skill": tuple(data["without_skill"]),
                "gain": GainInterval(**data["gain"]),
            }
        )
