"""The first stage: tasks in, judged kernels out. Teaching, compiling and judging overlap, and all of it can stop at any moment.

Teachers run ahead of the judge by a few tasks. Whoever judges takes one task and judges all its kernels, because a task that is up can
be used again. What fails is reported, skipped and left to a later run; what was judged is in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bottega.compiler.build_step import BuildStep
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.mistakes import mutants_of
from bottega.data.records import TaskRecord, TeacherRecord
from bottega.data.settings import JudgeStage
from bottega.data.step_choice import chosen_steps
from bottega.data.store import JudgedStore
from bottega.data.teacher_pool import TeacherPool

AHEAD = 4
"""Tasks that wait for the judge with their builds ready, for each of its workers."""


class KernelJudge(Protocol):
    """Whoever judges all kernels of a task and remembers what was judged: the judge, or the trusted judge."""

    async def judge_many(
        self, task: Task, candidates: Sequence[Candidate], trouble: Callable[[str], None]
    ) -> list[Verdict | None]: ...


@dataclass
class Progress:
    """What was done so far, for whoever watches."""

    tasks: int = 0
    """All that were asked for."""
    tasks_done: int = 0
    builds: int = 0
    refused: int = 0
    failed: int = 0
    judged: int = 0
    """By this run."""
    known: int = 0
    """Taken from the store."""
    mutants: int = 0
    proofs: int = 0
    proofs_planned: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    time_up: bool = False
    """Whether tasks were left because the time was up."""
    spent: Counter[str] = field(default_factory=Counter)
    """Seconds of the trusted judge's workers, all together, by what they did."""
    replaced: Counter[str] = field(default_factory=Counter)
    """Its workers that had to be replaced, by what was wrong with them."""
    faults: list[str] = field(default_factory=list)
    """Its own errors, as tracebacks: bugs of ours."""
    judging_s: float = 0.0
    audit: dict[str, Any] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    """What was skipped, each in a line."""
    changed: Callable[[], None] = lambda: None

    def verdict(self, verdict: Verdict, known: bool) -> None:
        self.known += known
        self.judged += not known
        self.outcomes[verdict.outcome.value] += 1
        self.changed()

    @property
    def left(self) -> int:
        return self.tasks - self.tasks_done

    def trouble(self, text: str) -> None:
        self.troubles.append(text)
        self.changed()


async def judge_all(
    task_records: Sequence[TaskRecord],
    teacher_pool: TeacherPool,
    judge: KernelJudge | None,
    store: JudgedStore,
    stage: JudgeStage,
    progress: Progress,
) -> None:
    """Without a judge, kernels are only written. Raises only what ends the run: the store cannot be written, or the judge was closed."""
    progress.tasks += len(task_records)
    ready: asyncio.Queue[tuple[TaskRecord, list[TeacherRecord]] | None] = asyncio.Queue(AHEAD * stage.workers)
    places = asyncio.Semaphore(stage.teachers)
    begun = time.monotonic()

    def late() -> bool:
        progress.time_up |= bool(stage.seconds) and time.monotonic() - begun >= stage.seconds
        return progress.time_up

    async def one_record(task_record: TaskRecord, language: str, seed: int) -> TeacherRecord:
        async with places:
            return await _teacher_record(task_record, language, seed, teacher_pool, store, stage, progress)

    async def teach(task_record: TaskRecord) -> None:
        wanted = [(language, seed) for language in stage.languages for seed in stage.seeds]
        teacher_records = await asyncio.gather(*(one_record(task_record, language, seed) for language, seed in wanted))
        await ready.put((task_record, list(teacher_records)))

    async def teach_all() -> None:
        # As many tasks as there are teachers, in order, so that the builds of a task are ready at about the same time.
        waiting = iter(task_records)

        async def work() -> None:
            for task_record in waiting:
                if late():
                    return
                await teach(task_record)

        async with asyncio.TaskGroup() as group:
            for _ in range(stage.teachers):
                group.create_task(work())
        for _ in range(stage.workers):
            await ready.put(None)

    async def judge_some() -> None:
        while (item := await ready.get()) is not None:
            if judge is not None:
                if late():
                    continue
                await _judge_task(*item, judge, store, stage, progress)
            progress.tasks_done += 1
            progress.changed()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(teach_all())
            for _ in range(stage.workers):
                group.create_task(judge_some())
    except BaseExceptionGroup as several:
        raise _first(several) from None
    finally:
        progress.judging_s = time.monotonic() - begun


async def _teacher_record(
    task_record: TaskRecord,
    language: str,
    seed: int,
    teacher_pool: TeacherPool,
    store: JudgedStore,
    stage: JudgeStage,
    progress: Progress,
) -> TeacherRecord:
    known = store.teacher_record((task_record.task.id, language, teacher_pool.teacher, seed, ""))
    if known is None or (known.failed and stage.retry):
        record = await teacher_pool.teach(task_record.task, language, seed)  # type: ignore[arg-type]
        store.add_teacher_record(record, again=known is not None)
    else:
        record = known
    progress.builds += record.build is not None
    progress.refused += bool(record.refused)
    progress.failed += bool(record.failed)
    if record.refused:
        progress.refusals[record.refused] += 1
    if record.failed:
        progress.trouble(f"{task_record.task.label} in {language}: the teacher failed and is skipped: {record.failed}")
    progress.changed()
    return record


async def _judge_task(
    task_record: TaskRecord,
    teacher_records: Sequence[TeacherRecord],
    judge: KernelJudge,
    store: JudgedStore,
    stage: JudgeStage,
    progress: Progress,
) -> None:
    label = task_record.task.label
    builds = [chosen_steps(record.build.steps, stage.steps) for record in teacher_records if record.build]
    unique = {step.candidate.id: step for build in builds for step in build}

    def trouble(text: str) -> None:
        progress.trouble(f"{label}: {text}")

    correct: list[BuildStep] = []
    verdicts = await judge.judge_many(task_record.task, [step.candidate for step in unique.values()], trouble)
    for step, verdict in zip(unique.values(), verdicts):
        if verdict is None:
            continue
        if verdict.outcome is Outcome.INVALID_TASK:
            trouble(f"cannot be judged and is skipped: {_line(verdict.diagnosis)}")
            return
        if verdict.outcome.accepted:
            correct.append(step)
        else:
            trouble(f"a teacher's kernel is {verdict.outcome.value} ({step.technique}): {_line(verdict.diagnosis)}")
    mutants = [
        mutant for step in _chosen(correct, stage) for mutant in mutants_of(task_record.task, step.candidate, stage.mistakes)
    ]
    mutants = [mutant for mutant in mutants if mutant.candidate.id not in unique]
    if mutants:
        store.add_mutants(mutants)
        progress.mutants += len(mutants)
        sampled = {mutant.candidate.id: mutant.candidate for mutant in mutants}
        await judge.judge_many(task_record.task, list(sampled.values()), trouble)


def _chosen(correct: Sequence[BuildStep], stage: JudgeStage) -> list[BuildStep]:
    """The last kernel of each language, which is the best the teacher knows, and one more: mistakes are made at every stage."""
    if not stage.mistakes:
        return []
    chosen: dict[str, BuildStep] = {}
    for language in stage.languages:
        own = [step for step in correct if step.candidate.language == language]
        if own:
            sampled = min(own, key=lambda step: hashlib.sha256(step.candidate.id.encode()).digest())
            chosen |= {step.candidate.id: step for step in (own[-1], sampled)}
    return list(chosen.values())


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of ours that ended it, or whatever came first."""
    found = list(_leaves(several))
    return next((error for error in found if isinstance(error, BottegaError)), found[0])


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
