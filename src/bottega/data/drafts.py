"""Drafts from the builder: the last kernels of its course for a task, drawn in a process of its own with a limit of time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bottega.compiler.steps import Step
from bottega.core.candidate import Language
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.material import Lecture
from bottega.data.pool import Appointment, Classrooms

BUILDER = "bottega.compiler.builder:Builder"
CAPTURED = "captured"
"""A network as it is, in one CUDA graph: worth a try when nothing of ours is left to try."""
SHELVED = "shelved_parts"


class CompilerDrafts:
    """For one module: the builder's process is there while it draws, and not while the judge measures."""

    def __init__(self, plain: bool = False, timeout: float = 60.0) -> None:
        """`plain`: in the one hand that small models were trained on, so that they can read what they are shown."""
        self.appointment, self.timeout = Appointment(BUILDER, {"plain": plain}), timeout

    async def drafts(self, task: Task, language: Language, count: int) -> Drafts:
        try:
            room = await asyncio.to_thread(Classrooms, self.appointment, 1, self.timeout)
        except UsageError as error:
            return Drafts("builder", refused=str(error))
        try:
            return drafts_of(await room.lecture(task, language), count)
        finally:
            room.close()


def drafts_of(lecture: Lecture, count: int) -> Drafts:
    """The most promising kernels of a course, or why there is none."""
    if lecture.course is None:
        return Drafts(lecture.teacher, refused=lecture.refused or lecture.failed)
    steps = promising_steps(lecture.course.steps, lecture.language)[:count]
    drawn = tuple(Draft(step.candidate.source, step.technique, step.summary) for step in steps)
    return Drafts(lecture.teacher, drawn, "" if drawn else "its course has no kernel")


def promising_steps(steps: Sequence[Step], language: Language) -> list[Step]:
    """Where each branch of a course ends, then the steps before: what a technique adds is not always a gain.

    The shelf's parts come first where a course has them: measured over many shapes, they choose for themselves when to leave the work to
    the library. A course's last branch writes products and convolutions too. On a GPU that often wins; in C++ it loses to MKL and oneDNN,
    so there the branch that keeps them comes first.
    """
    by_id = {step.candidate.id: step for step in steps}
    parents = {step.candidate.parent for step in steps}
    ends = [step for step in steps if step.candidate.id not in parents]
    if language != "cpp":
        ends.reverse()
        ends.sort(key=lambda step: (step.technique == CAPTURED, step.technique != SHELVED))
    before = [by_id[step.candidate.parent] for step in ends if step.candidate.parent in by_id]
    return list({step.candidate.id: step for step in (*ends, *before)}.values())
