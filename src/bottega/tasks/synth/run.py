"""From samples to a set of tasks: drops duplicates and samples too similar to a benchmark, has the rest examined, and keeps what is fit.

The examiner is given: this package knows no judge. Samples are examined side by side and in any order; what is accepted is decided in order of their
numbers, so that more workers, a killed run or a shard change nothing about the outcome.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bottega.core.errors import BottegaError, JudgeError, TaskError, UsageError
from bottega.core.task import Task
from bottega.tasks.synth.output import row, write_output
from bottega.tasks.synth.plan import Series, SynthPlan
from bottega.tasks.synth.run_log import RunLog, RunRecord
from bottega.tasks.synth.sample import Synthesised
from bottega.tasks.synth.similarity import Benchmark
from bottega.tasks.synth.summary import SynthSummary, SynthTally, summary_of
from bottega.tasks.tables import require_format

LOG = "examined.log"
FAILURES_IN_A_ROW = 5
"""After so many samples that the examiner itself could not deal with, the machine is at fault and the run stops."""
LONGEST_DROUGHT = 5000
"""Samples in a row of which none is accepted."""


@dataclass(frozen=True)
class ExaminerReport:
    """What an examiner says of a task that could be run."""

    fit: bool
    problems: tuple[tuple[str, str], ...] = ()
    """Name and detail of each."""
    eager_ms: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Examiner(Protocol):
    def examine(self, task: Task) -> ExaminerReport:
        """Run it. Raises `TaskError` when the task cannot be run; any other error is the examiner's own."""
        ...


Watch = Callable[[SynthTally], None]


@dataclass
class _Place:
    """A sample that waits for its turn in the order."""

    made: Synthesised
    record: RunRecord | None = None
    """None while it is examined."""
    lost: bool = False
    """The examiner failed; it has no record and will be tried again when the run is taken up."""


def run(
    plan: SynthPlan,
    folder: Path,
    examiner: Examiner | None = None,
    *,
    workers: int = 1,
    benchmark: Benchmark | None = None,
    originals: Sequence[Task] = (),
    table: str = "jsonl",
    watch: Watch | None = None,
) -> SynthSummary:
    """Write `plan.count` accepted tasks into `folder`, going on from what an earlier run with the same plan left there.

    They are composed, or variations of the `originals`.
    """
    if plan.filtered and examiner is None:
        raise UsageError("a filtered run needs an examiner; without one, ask for unmeasured tasks")
    require_format(table)
    with RunLog(folder / LOG, plan.terms()) as journal:
        examining = _Run(plan, Series(plan, originals), examiner, workers, benchmark, journal, watch or (lambda tally: None))
        finished = False
        try:
            examining.go()
            finished = True
        finally:
            summary = summary_of(examining.tally, plan, time.monotonic() - examining.begun, interrupted=not finished)
            write_output(folder, examining.rows, summary, table)
        return summary


class _Run:
    def __init__(
        self,
        plan: SynthPlan,
        series: Series,
        examiner: Examiner | None,
        workers: int,
        benchmark: Benchmark | None,
        journal: RunLog,
        watch: Watch,
    ):
        self.plan, self.series, self.examiner, self.workers, self.benchmark = plan, series, examiner, max(1, workers), benchmark
        self.journal, self.watch = journal, watch
        self.tally = SynthTally()
        self.rows: list[dict[str, Any]] = []
        """Of what is accepted."""
        self.queue: deque[_Place] = deque()
        self.flying: dict[Future[RunRecord], _Place] = {}
        self.failures = 0
        self.drought = 0
        self.longest_drought = max(200, 20 * len(series.originals)) if series.originals else LONGEST_DROUGHT
        self.begun = time.monotonic()

    def go(self) -> None:
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="examine")
        finished = False
        try:
            for made, repeated in self.series:
                self._admit(made, repeated, pool)
                self._settle()
                while len(self.flying) >= 2 * self.workers and not self._enough:
                    self._collect()
                if self._enough:
                    break
            while self.flying:  # measured already, or nearly: keep what they say
                self._collect()
            finished = True
        finally:
            pool.shutdown(wait=finished, cancel_futures=True)

    @property
    def _enough(self) -> bool:
        return self.tally.accepted >= self.plan.count

    def _admit(self, made: Synthesised, repeated: bool, pool: ThreadPoolExecutor) -> None:
        place = _Place(made, self.journal.records.get(made.index))
        self.queue.append(place)
        if place.record is not None:
            return
        place.record = self._without_running(made, repeated)
        if place.record is not None:
            self.journal.append(place.record)
        else:
            self.flying[pool.submit(self._examine, made)] = place

    def _without_running(self, made: Synthesised, repeated: bool) -> RunRecord | None:
        if repeated:
            return RunRecord(made.index, False, "duplicate")
        if self.benchmark is not None:
            nearest = self.benchmark.nearest(made.task.source)
            if nearest.similarity > self.plan.threshold:
                return RunRecord(made.index, False, "too_similar", f"{nearest.similarity:.3f} to {nearest.label}")
        return None if self.plan.filtered else RunRecord(made.index, True)

    def _examine(self, made: Synthesised) -> RunRecord:
        assert self.examiner is not None
        for attempt in (1, 2):
            try:
                finding = self.examiner.examine(made.task)
            except TaskError as error:
                return RunRecord(made.index, False, "does_not_run", str(error)[:300])
            except (BottegaError, OSError, MemoryError):
                if attempt == 2:
                    raise
            else:
                return self._judged(made, finding)
        raise AssertionError("unreachable")

    def _judged(self, made: Synthesised, finding: ExaminerReport) -> RunRecord:
        took = finding.eager_ms
        if finding.problems or not finding.fit:
            name, detail = finding.problems[0] if finding.problems else ("unfit", "")
            return RunRecord(made.index, False, name, detail, took, finding.facts)
        if took is not None and not self.plan.shortest_ms <= took <= self.plan.longest_ms:
            return RunRecord(made.index, False, "outside_window", f"{took:.3g} ms", took, finding.facts)
        return RunRecord(made.index, True, eager_ms=took, facts=finding.facts)

    def _collect(self) -> None:
        done, _ = wait(self.flying, return_when=FIRST_COMPLETED)
        for future in done:
            place = self.flying.pop(future)
            try:
                place.record = future.result()
            except (BottegaError, OSError, MemoryError) as error:
                place.lost = True
                self.failures += 1
                self.tally.lost[str(place.made.index)] = str(error)[:300]
                if self.failures >= FAILURES_IN_A_ROW:
                    raise JudgeError(
                        f"the examiner failed {self.failures} times running, last: {error}; what was examined is kept, run again to go on"
                    ) from None
            else:
                self.failures = 0
                self.journal.append(place.record)
        self._settle()

    def _settle(self) -> None:
        """Count what is known, in order."""
        while self.queue and not self._enough and (self.queue[0].record is not None or self.queue[0].lost):
            place = self.queue.popleft()
            if place.record is None:
                continue
            self.tally.count(place.made, place.record)
            self.drought = 0 if place.record.accepted else self.drought + 1
            if place.record.accepted:
                self.rows.append(row(place.made, place.record))
            if self.drought >= self.longest_drought:
                wider = "give more modules to vary" if self.series.originals else "widen the window, the families or the levels"
                raise UsageError(f"none of the last {self.drought} samples was accepted ({self.tally.words()}); {wider}")
        self.watch(self.tally)
