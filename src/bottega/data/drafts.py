"""Drafts from the compiler: the last kernels that it builds for a task, made in a process of their own with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bottega.compiler.steps import BuildStep
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.records import TeacherRecord
from bottega.data.teacher_pool import ProcessTeacherPool, TeacherSpec
from bottega.languages import language_named

BUILDER = "bottega.compiler.compiler:Compiler"
CAPTURED = "captured"
"""A network as it is, in one CUDA graph: worth a try when nothing of ours is left to try."""
SHELVED = "shelved_parts"


class CompilerDrafts:
    """For one module: the compiler's process lives while it builds, and not while the judge measures."""

    def __init__(self, timeout: float = 60.0) -> None:
        self.teacher_spec, self.timeout = TeacherSpec(BUILDER), timeout

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        try:
            pool = await asyncio.to_thread(ProcessTeacherPool, self.teacher_spec, 1, self.timeout)
        except UsageError as error:
            return Drafts("builder", refused=str(error))
        try:
            return drafts_of(await pool.teach(task, language), count)
        finally:
            pool.close()


def drafts_of(record: TeacherRecord, count: int) -> Drafts:
    """Returns the most promising kernels of a build, or why there are none."""
    if record.build is None:
        return Drafts(record.teacher, refused=record.refused or record.failed)
    steps = promising_steps(record.build.steps, record.language)[:count]
    sampled = tuple(Draft(step.candidate.source, step.technique, step.summary) for step in steps)
    return Drafts(record.teacher, sampled, "" if sampled else "it built no kernel")


def promising_steps(steps: Sequence[BuildStep], language: str) -> list[BuildStep]:
    """Returns the ends of the build's branches, then the steps before them: a pass is not always a gain.

    The kernel library comes first where a build uses it: its functions were measured over many shapes, and choose when to call the vendor
    library. The last branch writes products and convolutions too. On a GPU that often wins; in C++ it loses to MKL and oneDNN,
    so there the branch that keeps them comes first.
    """
    by_id = {step.candidate.id: step for step in steps}
    parents = {step.candidate.parent for step in steps}
    ends = [step for step in steps if step.candidate.id not in parents]
    if language_named(language).on_gpu:
        ends.reverse()
        ends.sort(key=lambda step: (step.technique == CAPTURED, step.technique != SHELVED))
    before = [by_id[step.candidate.parent] for step in ends if step.candidate.parent in by_id]
    return list({step.candidate.id: step for step in (*ends, *before)}.values())
