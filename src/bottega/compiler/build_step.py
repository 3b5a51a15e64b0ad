"""What a teacher returns: the steps of one task, where each step adds one named technique to the step it was made from.

A teacher proves nothing: its kernels are judged like any other candidate. Unjudged kernels become data only where `unjudged` asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task

FIRST_ATTEMPT = "naive"
"""The technique of a step that has no parent."""


class Refusal(BottegaError):
    """The teacher has no answer for this task in this language; the message says what it does not support."""


@dataclass(frozen=True)
class BuildStep:
    candidate: Candidate
    """Its `parent` is the id of the step that it improves; None for a first attempt."""
    technique: str
    """What this step adds, by the teacher's name for it."""
    cards: tuple[str, ...] = ()
    """Cards of the library that teach this technique."""
    summary: str = ""
    """One line that describes the step."""


@dataclass(frozen=True)
class BuildSteps:
    task_id: str
    language: str
    teacher: str
    """Name and version: results of another version are stored apart."""
    steps: tuple[BuildStep, ...]


class Teacher(Protocol):
    @property
    def name(self) -> str:
        """Name and version."""
        ...

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        """Raises `Refusal` for what it cannot do. The same task, language and seed give the same steps where that is possible."""
        ...
