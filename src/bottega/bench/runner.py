"""Runs a benchmark: one queue of samples, one judge for each device; every complete sample is stored at once.

Answers are drawn first; a task is brought up when it has a kernel, looked at, and judged while it is up.

One task that fails costs no other. A device that vanishes costs what it had under way; the others go on with the rest. Whatever is left
over at the end is said of its task, and the same command tries it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.bench.drafted_source import DraftedSource, is_faster
from bottega.bench.kernel_sources import CandidateSource, ModelSource
from bottega.bench.run_directory import Recorder
from bottega.bench.shard import DeviceLost, Fitness, Shard, Unfit
from bottega.bench.task_set import NO_CANDIDATE, NOT_YET
from bottega.core.errors import BackboneError, BottegaError, BudgetError, JudgeError
from bottega.core.foreign_text import one_line
from bottega.core.task import Task
from bottega.episodes.phases import Phases, PhaseStatus

REFUSALS_IN_A_ROW = 8
"""After so many samples in a row to which the backbone gave no answer, it is at fault and the run stops."""

GROWTH_SECONDS = 2.0
"""How often it is seen whether devices can do with more lanes."""


@dataclass(frozen=True)
class BenchStarted:
    """For whoever watches."""

    samples: int
    done: int
    """Samples that an earlier session did."""
    tasks: int
    devices: tuple[str, ...]
    phases: Phases = field(default_factory=Phases)
    """What the device is used for now, where the model draws on it too."""


@dataclass(frozen=True)
class SampleKept:
    task: BenchTask
    attempts: tuple[BenchAttempt, ...]
    """Of one whole sample."""


@dataclass(frozen=True)
class SampleFailed:
    """Something that a reader must know: a task that cannot be judged, a sample that failed, a device that is gone."""

    text: str


KernelSource = ModelSource | CandidateSource | DraftedSource
OnEvent = Callable[[BenchStarted | SampleKept | SampleFailed | PhaseStatus], None]
"""May be called from any thread."""


@dataclass(frozen=True)
class SampleJob:
    task: str
    samples: tuple[int, ...]


@dataclass
class Queue:
    """What is left to do, by task, in order. A task stays with the device that began it, until there is nothing else to do."""

    waiting: dict[str, deque[SampleJob]]
    holders: dict[str, Shard] = field(default_factory=dict)

    def take(self, shard: Shard) -> SampleJob | None:
        own = (task for task in self.waiting if self.holders.get(task) is shard)
        free = (task for task in self.waiting if task not in self.holders)
        task = next(own, None) or next(free, None) or next(iter(self.waiting), None)
        if task is None:
            return None
        self.holders.setdefault(task, shard)
        job = self.waiting[task].popleft()
        if not self.waiting[task]:
            del self.waiting[task]
        return job

    def drop(self, task: str) -> None:
        self.waiting.pop(task, None)


@dataclass
class BenchRunner:
    recorder: Recorder
    tasks: dict[str, Task]
    shards: Sequence[Shard]
    work: KernelSource
    on_event: OnEvent = lambda event: None
    phases: Phases = field(default_factory=Phases)
    """Of the device on which the model draws."""
    ended: str = ""
    """Why no more samples were begun, where that was not because all were done."""
    _looks: dict[str, asyncio.Task[Fitness]] = field(default_factory=dict)
    _whole: set[tuple[str, int]] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)
    """Tasks that have an attempt."""
    _refusals: int = 0

    async def go(self) -> bool:
        """Whether the run is whole. Raises only what ends it: a disk that is full, or a fault of ours."""
        self._begun = {task for task, _, _ in self.recorder.attempts}
        queue, whole, done = self._queue()
        self.on_event(
            BenchStarted(whole, done, len(self.recorder.tasks), tuple(shard.device for shard in self.shards), self.phases)
        )
        self.phases.hear = self.on_event
        for shard in self.shards:
            shard.look = partial(self._look, shard)
        await self._run_lanes(queue)
        if not self.ended and queue.waiting:
            self.ended = "no device is left: " + "; ".join(shard.lost for shard in self.shards)
        for task in queue.waiting:
            self._report_failure(task, self.ended)
        return all(row.trouble in ("", NO_CANDIDATE) for row in self.recorder.tasks.values())

    async def _run_lanes(self, queue: Queue) -> None:
        """As many lanes as each device can do with: of a cluster there are more when machines join it."""
        begun: Counter[Shard] = Counter()
        running: set[asyncio.Future[None]] = set()
        try:
            while True:
                for shard in self.shards:
                    while begun[shard] < self.work.lanes(shard):
                        begun[shard] += 1
                        running.add(asyncio.ensure_future(self._lane(shard, queue)))
                ended, running = await asyncio.wait(running, timeout=GROWTH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for one in ended:
                    one.result()
                if not running:
                    return
        finally:
            left: list[asyncio.Future[Any]] = [*running, *self._looks.values()]
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _queue(self) -> tuple[Queue, int, int]:
        waiting: dict[str, deque[SampleJob]] = {}
        whole = done = 0
        for row in list(self.recorder.tasks.values()):
            samples = self.work.samples(row.id)
            left = [number for number in samples if not self._is_kept(row.id, number)]
            whole, done = whole + len(samples), done + len(samples) - len(left)
            if not left:
                self.recorder.note(replace(row, trouble="" if samples else NO_CANDIDATE))
                continue
            self.recorder.note(replace(row, trouble=NOT_YET))
            size = self.work.chunk
            jobs = [SampleJob(row.id, tuple(left[start : start + size])) for start in range(0, len(left), size)]
            waiting[row.id] = deque(jobs)
        return Queue(waiting), whole, done

    def _is_kept(self, task: str, sample: int) -> bool:
        """A sample is whole when its last turn is kept, since turns are kept in order. One of a task that cannot be judged has no more
        turns; one of a beam may end early, and is then walked through its log once more, which costs nothing."""
        if (task, sample) in self._whole:
            return True
        kept, settings = self.recorder.attempts, self.recorder.settings
        turns, drafts = int(settings.get("turns", 1)), int(settings.get("drafts", 0))
        first = kept.get((task, sample, 0))
        if first is not None and not first.candidate and first.verdict is not None:
            return True
        if (task, sample, turns + drafts - 1) in kept:
            return True
        return bool(drafts) and self._ended_early(
            [kept.get((task, sample, turn)) for turn in range(turns + drafts)], turns, task
        )

    def _ended_early(self, sample: Sequence[BenchAttempt | None], turns: int, task: str) -> bool:
        """Whether a sample that may have more drafts has no more: one is faster, the compiler refused, or its task was said to be whole, as it
        is where there were fewer drafts."""
        found = [one for one in sample if one is not None]
        if not found or (turns and sample[turns - 1] is None):
            return False
        refused = any(one.author == "compiler" and one.verdict is None for one in found)
        return refused or any(map(is_faster, found)) or self.recorder.tasks[task].trouble == ""

    async def _lane(self, shard: Shard, queue: Queue) -> None:
        while not shard.lost and not self.ended:
            job = queue.take(shard)
            if job is None:
                return
            try:
                await self._job(shard, job)
            except DeviceLost as error:
                # Not tried on another device in this session: if it was this task that took the device down, it would take them all.
                queue.drop(job.task)
                self._report_failure(job.task, str(error))
            except BudgetError as error:
                self.ended = str(error)
                self._report_failure(job.task, str(error))

    async def _job(self, shard: Shard, job: SampleJob) -> None:
        for number in job.samples:
            known = self._known_fitness(job.task)
            if self.ended or shard.lost:
                self._report_failure(job.task, self.ended or shard.lost)
            elif known is not None and not known.runs:
                self._keep(job.task, number, self.work.invalid(job.task, number, known.reason))
            else:
                await self._sample(shard, job.task, number)

    async def _sample(self, shard: Shard, task: str, number: int) -> None:
        try:
            made = await self.work.sample(shard, self.tasks[task], number)
            if self._known_fitness(task) is None:  # no answer held a kernel
                async with self.phases.judging(shard.device):
                    await shard.looked_at(self.tasks[task])
        except (DeviceLost, BudgetError):
            raise
        except Unfit as unfit:
            self._keep(task, number, self.work.invalid(task, number, str(unfit)))
        except BottegaError as error:
            if type(error) is BottegaError:  # nothing can be kept any more
                raise
            self._failed(task, number, error)
        except Exception as error:
            fault = f"an error in Bottega itself, please report it: {type(error).__name__}: {error}"
            self._failed(task, number, BottegaError(fault))
        else:
            self._refusals = 0
            self._keep(task, number, made)

    def _known_fitness(self, task: str) -> Fitness | None:
        """What this session or an earlier one saw; nothing where nobody has looked yet."""
        if task not in self.tasks or task in self._begun:
            return Fitness.of(self.recorder.tasks[task].fitness)
        look = self._looks.get(task)
        return look.result() if look is not None and look.done() and not look.cancelled() and look.exception() is None else None

    async def _look(self, shard: Shard, task: Task) -> None:
        """Once for a task, by whoever comes first, and kept before its first attempt."""
        fitness = self._known_fitness(task.id)
        if fitness is None:
            if task.id not in self._looks:
                self._looks[task.id] = asyncio.ensure_future(shard.fitness(task))
            try:
                fitness = await asyncio.shield(self._looks[task.id])
            except JudgeError as error:
                self._looks.pop(task.id, None)
                raise JudgeError(f"its fitness is not known: {one_line(str(error), 300)}") from None
        row = self.recorder.tasks[task.id]
        if row.fitness != fitness.reason:
            self.recorder.note(replace(row, fitness=fitness.reason))
            self.on_event(SampleFailed(f"{row.name}: {fitness.reason}"))
        if not fitness.runs:
            raise Unfit(fitness.reason)

    def _keep(self, task: str, number: int, made: Sequence[tuple[BenchAttempt, str]]) -> None:
        for attempt, source in made:
            self.recorder.add(attempt, source)
        self._whole.add((task, number))
        self._begun.add(task)
        row = self.recorder.tasks[task]
        if all(self._is_kept(task, sample) for sample in self.work.samples(task)):
            self.recorder.note(replace(row, trouble=""))
        self.on_event(SampleKept(self.recorder.tasks[task], tuple(attempt for attempt, _ in made)))

    def _failed(self, task: str, number: int, error: BottegaError) -> None:
        self._report_failure(task, f"sample {number} has no verdict: {one_line(str(error), 300)}")
        if isinstance(error, BackboneError):
            self._refusals += 1
            if self._refusals >= REFUSALS_IN_A_ROW:
                self.ended = f"the backbone failed {self._refusals} times in a row: {one_line(str(error), 300)}"

    def _report_failure(self, task: str, why: str) -> None:
        row = self.recorder.tasks[task]
        if row.trouble in ("", NOT_YET):
            self.recorder.note(replace(row, trouble=why))
            self.on_event(SampleFailed(f"{row.name}: {why}"))
