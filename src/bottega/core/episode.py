"""An episode: one task from the selection of skills to the proposal of new ones."""

from __future__ import annotations

from dataclasses import dataclass

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
