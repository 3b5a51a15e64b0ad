"""A draft: a kernel that was written by rule, before any model was asked. It is checked like every other candidate, and timed as trusted code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from bottega.core.task import Task


@dataclass(frozen=True)
class Draft:
    source: str
    technique: str = ""
    """The last thing that was done to it, by its writer's name for it."""
    summary: str = ""
    """One line, as a writer says it before its kernel."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Drafts:
    """The drafts of one author for one task."""

    author: str
    """Name and version."""
    drafts: tuple[Draft, ...] = ()
    """The most promising first."""
    refused: str = ""
    """Why there are none, in a line."""


class DraftSource(Protocol):
    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        """At most `count` kernels, or why there are none. A task that cannot be understood is no error."""
        ...
