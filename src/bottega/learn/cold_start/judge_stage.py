"""The first stage: tasks in, judged kernels out. Teaching, compiling and judging overlap, and all of it can stop at any moment.

Teachers run ahead of the judge by a few tasks. Whoever judges takes one task and judges all its kernels, because a task that is up can
be used again. What fails is told, skipped and left to a later run; what was judged is in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, JudgeError
from bottega.core.verdict import Outcome, Verdict
from bottega.learn.cold_start.classroom import Classroom
from bottega.learn.cold_start.keeping_judge import KeepingJudge
from bottega.learn.cold_start.material import Lecture, Slip, Subject
from bottega.learn.cold_start.mistakes import slips_of
from bottega.learn.cold_start.settings import JudgeStage
from bottega.learn.cold_start.store import Store
from bottega.learn.teachers.teacher import Step

AHEAD = 4
"""Tasks that wait for the judge with their courses ready, for each of its workers."""


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
    troubles: list[str] = field(default_factory=list)
    """What was skipped, each in a line."""
    changed: Callable[[], None] = lambda: None

    def verdict(self, verdict: Verdict, known: bool) -> None:
        self.known += known
        self.judged += not known
        self.outcomes[verdict.outcome.value] += 1
        self.changed()

    def trouble(self, text: str) -> None:
        self.troubles.append(text)
        self.changed()


async def judge_all(
    subjects: Sequence[Subject], classroom: Classroom, judge: KeepingJudge, store: Store, stage: JudgeStage, progress: Progress
) -> None:
    """Raises only what ends the run: the store cannot be written, or the judge was closed."""
    progress.tasks += len(subjects)
    ready: asyncio.Queue[tuple[Subject, list[Lecture]] | None] = asyncio.Queue(AHEAD * stage.workers)
    places = asyncio.Semaphore(stage.teachers)

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
                await teach(subject)

        async with asyncio.TaskGroup() as group:
            for _ in range(stage.teachers):
                group.create_task(work())
        for _ in range(stage.workers):
            await ready.put(None)

    async def judge_some() -> None:
        while (item := await ready.get()) is not None:
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
    subject: Subject, lectures: Sequence[Lecture], judge: KeepingJudge, store: Store, stage: JudgeStage, progress: Progress
) -> None:
    steps = [step for lecture in lectures if lecture.course for step in lecture.course.steps]
    unique = {step.candidate.id: step for step in steps}
    correct: list[Step] = []
    for step in unique.values():
        verdict = await _verdict(subject, step.candidate, judge, progress)
        if verdict is not None and verdict.outcome is Outcome.INVALID_TASK:
            progress.trouble(f"{subject.task.label}: cannot be judged and is skipped: {_line(verdict.diagnosis)}")
            return
        if verdict is not None and verdict.outcome.accepted:
            correct.append(step)
        elif verdict is not None:
            progress.trouble(
                f"{subject.task.label}: a teacher's kernel is {verdict.outcome.value} ({step.technique}): {_line(verdict.diagnosis)}"
            )
    slips = [slip for step in _chosen(correct, stage) for slip in slips_of(subject.task, step.candidate, stage.mistakes)]
    slips = [slip for slip in slips if slip.candidate.id not in unique]
    if slips:
        store.add_slips(slips)
        progress.slips += len(slips)
        await _judge_slips(subject, slips, judge, progress)


async def _judge_slips(subject: Subject, slips: Iterable[Slip], judge: KeepingJudge, progress: Progress) -> None:
    for slip in slips:
        await _verdict(subject, slip.candidate, judge, progress)


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


async def _verdict(subject: Subject, candidate: Candidate, judge: KeepingJudge, progress: Progress) -> Verdict | None:
    try:
        return await judge.judge_async(subject.task, candidate)
    except JudgeError as error:
        if "closed" in str(error):
            raise
        progress.trouble(f"{subject.task.label}: a kernel has no verdict and is left to the next run: {_line(str(error))}")
        return None


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
