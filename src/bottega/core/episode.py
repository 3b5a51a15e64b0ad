"""An episode: one task from the selection of skills to the proposal of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bottega.core.skill import Skill
from bottega.core.trace import Trace


@dataclass(frozen=True)
class Episode:
    id: str
    task_id: str
    task_name: str
    family: str
    """The task's first operator family, for statistics."""
    device: str
    library_version: int
    """What the selector saw; the library can be read at that version again."""
    retrieved: tuple[str, ...]
    schemes: tuple[tuple[str, ...], ...]
    """Names of the selected skills, by scheme; the first is always empty."""
    traces: tuple[Trace, ...]
    """Of all roles."""
    proposals: tuple[Skill, ...] = ()
    ended: str = ""
    """Why it ended: target, roofline, no progress, a budget, or all turns taken."""

    def of(self, role: str) -> tuple[Trace, ...]:
        return tuple(trace for trace in self.traces if trace.role == role)

    def to_json(self) -> dict[str, Any]:
        return {
            **{
                name: getattr(self, name)
                for name in ("id", "task_id", "task_name", "family", "device", "library_version", "ended")
            },
            "retrieved": list(self.retrieved),
            "schemes": [list(scheme) for scheme in self.schemes],
            "traces": [trace.to_json() for trace in self.traces],
            "proposals": [skill.to_json() for skill in self.proposals],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Episode:
        return cls(
            **{
                **data,
                "retrieved": tuple(data["retrieved"]),
                "schemes": tuple(tuple(scheme) for scheme in data["schemes"]),
                "traces": tuple(Trace.from_json(trace) for trace in data["traces"]),
                "proposals": tuple(Skill.from_json(skill) for skill in data["proposals"]),
            }
        )
