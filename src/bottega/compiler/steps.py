"""What a teacher is: a task in, a course of kernels out, where every step adds one named technique to the step it grew from.

A teacher proves nothing: its kernels are judged like everybody's. What nobody judged becomes data only where `unjudged` asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task

FIRST_ATTEMPT = "naive"
"""The technique of a step that grew from none."""


class Refusal(BottegaError):
    """The teacher does not teach this task in this language; the message says what it does not understand."""


@dataclass(frozen=True)
class BuildStep:
    candidate: Candidate
    """Its `parent` is the id of the step that it improves; None for a first attempt."""
    technique: str
    """What this step adds, by the teacher's name for it."""
    cards: tuple[str, ...] = ()
    """Cards of the library that teach this technique."""
    summary: str = ""
    """One line, as a writer says it before its kernel."""


@dataclass(frozen=True)
class BuildSteps:
    task_id: str
    language: str
    teacher: str
    """Name and version: material from another version is other material."""
    steps: tuple[BuildStep, ...]


class Teacher(Protocol):
    @property
    def name(self) -> str:
        """Name and version."""
        ...

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        """Raises `Refusal` for what it cannot do. The same task, language and seed give the same course where that is possible."""
        ...
