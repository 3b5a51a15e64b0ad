"""Drafts from the compiler: the last kernels that it builds for a task, made in a process of their own with a time limit."""

from __future__ import annotations

import asyncio
import os

from bottega.core.draft import Draft, Drafts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.data.records import TeacherRecord
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec

BUILDER = "bottega.compiler.draft_compiler:DraftCompiler"
MOST_PROCESSES = 8
"""Each holds torch, a few hundred megabytes."""


class CompilerDrafts:
    """For one event loop. The compiler's processes live while anyone waits for drafts, and not while the judge alone is at work."""

    def __init__(self, timeout: float = 60.0, processes: int = 1) -> None:
        """`processes`: tasks that are traced and built side by side."""
        self.teacher_spec, self.timeout, self.processes = TeacherSpec(BUILDER), timeout, processes
        self._pool: SandboxTeacherPool | None = None
        self._waiting = 0
        self._starting = asyncio.Lock()

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        self._waiting += 1
        try:
            pool = await self._started()
            return drafts_of(await pool.teach(task, language), count)
        except UsageError as error:
            return Drafts("compiler", refused=str(error))
        finally:
            self._waiting -= 1
            if not self._waiting and self._pool is not None:
                self._pool.close()
                self._pool = None

    async def _started(self) -> SandboxTeacherPool:
        async with self._starting:
            if self._pool is None:
                self._pool = await asyncio.to_thread(SandboxTeacherPool, self.teacher_spec, self.processes, self.timeout)
            return self._pool


def side_by_side() -> int:
    """Compilers that a machine carries beside the judge's own processes: each takes one core."""
    return max(1, min(MOST_PROCESSES, len(os.sched_getaffinity(0)) // 2))


def drafts_of(record: TeacherRecord, count: int) -> Drafts:
    """Returns the first kernels of a build, or why there are none."""
    if record.build is None:
        return Drafts(record.teacher, refused=record.refused or record.failed)
    steps = record.build.steps[:count]
    sampled = tuple(Draft(step.candidate.source, step.technique, step.summary) for step in steps)
    return Drafts(record.teacher, sampled, "" if sampled else "it built no kernel")
