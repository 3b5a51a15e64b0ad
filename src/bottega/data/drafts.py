"""Drafts from the compiler: the last kernels that it builds for a task, made in a process of their own with a time limit."""

from __future__ import annotations

import asyncio

from bottega.core.draft import Draft, Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.records import TeacherRecord
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec

BUILDER = "bottega.compiler.draft_compiler:DraftCompiler"


class CompilerDrafts:
    """For one module: the compiler's process lives while it builds, and not while the judge measures."""

    def __init__(self, timeout: float = 60.0) -> None:
        self.teacher_spec, self.timeout = TeacherSpec(BUILDER), timeout

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        try:
            pool = await asyncio.to_thread(SandboxTeacherPool, self.teacher_spec, 1, self.timeout)
        except UsageError as error:
            return Drafts("builder", refused=str(error))
        try:
            return drafts_of(await pool.teach(task, language), count)
        finally:
            pool.close()


def drafts_of(record: TeacherRecord, count: int) -> Drafts:
    """Returns the first kernels of a build, or why there are none."""
    if record.build is None:
        return Drafts(record.teacher, refused=record.refused or record.failed)
    steps = record.build.steps[:count]
    sampled = tuple(Draft(step.candidate.source, step.technique, step.summary) for step in steps)
    return Drafts(record.teacher, sampled, "" if sampled else "it built no kernel")
