"""The first stage: tasks in, judged kernels out. Teaching, compiling and judging overlap, and all of it can stop at any moment.

Teachers run ahead of the judge by a few tasks. Whoever judges takes one task and judges all its kernels, because a task that is up can
be used again. What fails is told, skipped and left to a later run; what was judged is in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bottega.compiler.steps import Step
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.chosen_steps import chosen_steps
from bottega.data.material import Lecture, Subject
from bottega.data.mistakes import slips_of
from bottega.data.pool import Classroom
from bottega.data.settings import JudgeStage
from bottega.data.store import Store

AHEAD = 4
"""Tasks that wait for the judge with their courses ready, for each of its workers."""


class Judging(Protocol):
    """Whoever judges all kernels of a task and remembers what was judged: the judge, or the trusting bench."""

    async def judge_many(
        self, task: Task, candidates: Sequence[Candidate], trouble: Callable[[str], None]
    ) -> list[Verdict | None]: ...


@dataclass
class Progress:
    """What was done so far, for whoever watches."""

    tasks: int = 0
    """All that were asked for."""
    tasks_done: int = 0
    courses: int = 0
    refused: int = 0
    failed: int = 0
    judged: int = 0
    """By this run."""
    known: int = 0
    """Taken from the store."""
    slips: int = 0
    proofs: int = 0
    proofs_planned: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    time_up: bool = False
    """Whether tasks were left because the time was up."""
    spent: Counter[str] = field(default_factory=Counter)
    """Seconds of the trusting bench's workers, all together, by what they did."""
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
    subjects: Sequence[Subject],
    classroom: Classroom,
    judge: Judging | None,
    store: Store,
    stage: JudgeStage,
    progress: Progress,
) -> None:
    """Without a judge, kernels are only written. Raises only what ends the run: the store cannot be written, or the judge was closed."""
    progress.tasks += len(subjects)
    ready: asyncio.Queue[tuple[Subject, list[Lecture]] | None] = asyncio.Queue(AHEAD * stage.workers)
    places = asyncio.Semaphore(stage.teachers)
    begun = time.monotonic()

    def late() -> bool:
        progress.time_up |= bool(stage.seconds) and time.monotonic() - begun >= stage.seconds
        return progress.time_up

    async def one_lecture(subject: Subject, language: str, seed: int) -> Lecture:
        async with places:
            return await _lecture(subject, language, seed, classroom, store, stage, progress)

    async def teach(subject: Subject) -> None:
        wanted = [(language, seed) for language in stage.languages for seed in stage.seeds]
        lectures = await asyncio.gather(*(one_lecture(subject, language, seed) for language, seed in wanted))
        await ready.put((subject, list(lectures)))

    async def teach_all() -> None:
        # As many tasks as there are teachers, in order, so that the courses of a task are ready at about the same time.
        waiting = iter(subjects)

        async def work() -> None:
            for subject in waiting:
                if late():
                    return
                await teach(subject)

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


async def _lecture(
    subject: Subject, language: str, seed: int, classroom: Classroom, store: Store, stage: JudgeStage, progress: Progress
) -> Lecture:
    known = store.lecture((subject.task.id, language, classroom.teacher, seed, ""))
    if known is None or (known.failed and stage.retry):
        lecture = await classroom.lecture(subject.task, language, seed)  # type: ignore[arg-type]
        store.add_lecture(lecture, again=known is not None)
    else:
        lecture = known
    progress.courses += lecture.course is not None
    progress.refused += bool(lecture.refused)
    progress.failed += bool(lecture.failed)
    if lecture.refused:
        progress.refusals[lecture.refused] += 1
    if lecture.failed:
        progress.trouble(f"{subject.task.label} in {language}: the teacher failed and the course is skipped: {lecture.failed}")
    progress.changed()
    return lecture


async def _judge_task(
    subject: Subject, lectures: Sequence[Lecture], judge: Judging, store: Store, stage: JudgeStage, progress: Progress
) -> None:
    label = subject.task.label
    courses = [chosen_steps(lecture.course.steps, stage.steps) for lecture in lectures if lecture.course]
    unique = {step.candidate.id: step for course in courses for step in course}

    def trouble(text: str) -> None:
        progress.trouble(f"{label}: {text}")

    correct: list[Step] = []
    verdicts = await judge.judge_many(subject.task, [step.candidate for step in unique.values()], trouble)
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
    slips = [slip for step in _chosen(correct, stage) for slip in slips_of(subject.task, step.candidate, stage.mistakes)]
    slips = [slip for slip in slips if slip.candidate.id not in unique]
    if slips:
        store.add_slips(slips)
        progress.slips += len(slips)
        drawn = {slip.candidate.id: slip.candidate for slip in slips}
        await judge.judge_many(subject.task, list(drawn.values()), trouble)


def _chosen(correct: Sequence[Step], stage: JudgeStage) -> list[Step]:
    """The last kernel of each language, which is the best the teacher knows, and one more: mistakes are made at every stage."""
    if not stage.mistakes:
        return []
    chosen: dict[str, Step] = {}
    for language in stage.languages:
        own = [step for step in correct if step.candidate.language == language]
        if own:
            drawn = min(own, key=lambda step: hashlib.sha256(step.candidate.id.encode()).digest())
            chosen |= {step.candidate.id: step for step in (own[-1], drawn)}
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
