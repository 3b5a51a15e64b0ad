"""A run laid out as arrays, tasks × samples × turns, against one baseline: what every figure is computed from.

Attempts that are missing stand as failures, because shares are taken over all tasks; whether anything was answered is kept beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bottega.bench.attempt import BenchAttempt, BenchRun, BenchTask
from bottega.bench.bootstrap import Floats, Spread
from bottega.core.verdict import Outcome, Speedup, Verdict

Flags = NDArray[np.bool_]

INVALID = "the judge could not use the task"
NO_KERNEL, NO_ATTEMPT = "no_kernel", "no_attempt"
"""What an answer without a kernel came to, and a task without an answer."""
ENDINGS = (*(outcome.value for outcome in Outcome), NO_KERNEL, NO_ATTEMPT)
FURTHEST = (
    Outcome.REJECTED,
    Outcome.INCORRECT,
    Outcome.RUNTIME_ERROR,
    Outcome.TIMEOUT,
    Outcome.COMPILE_ERROR,
    Outcome.INVALID_TASK,
)
"""Failures by how far they came; a task of which nothing was right is told by the furthest."""
LEAST = 1e-12
"""A low end that says nothing, and yet ranks above what was not timed."""
NOT_BUILT = (Outcome.COMPILE_ERROR, Outcome.TIMEOUT, Outcome.INVALID_TASK)
"""A timeout may have struck before or after the build; it does not count as compiled, which is the cautious reading."""


@dataclass(frozen=True)
class ResultArrays:
    tasks: tuple[BenchTask, ...]
    attempts: tuple[tuple[BenchAttempt, ...], ...]
    """By task."""
    answered: Flags
    compiled: Flags
    correct: Flags
    """Right and honest."""
    point: Floats
    low: Floats
    high: Floats
    """Speedup of correct attempts that were timed, with its interval; 0 elsewhere."""

    @property
    def samples(self) -> int:
        return int(self.answered.shape[1])

    @property
    def turns(self) -> int:
        return int(self.answered.shape[2])

    def fast(self, p: float, sure: bool = False) -> Flags:
        """Right and more than p times as fast: by the point, or surely, by the interval's low end. At p = 0 being right is enough."""
        if p <= 0:
            return self.correct
        return self.correct & ((self.low if sure else self.point) > p)

    def only(self, places: Sequence[int]) -> ResultArrays:
        """Some of its tasks."""
        at = np.array(places, dtype=int)
        arrays = (self.answered, self.compiled, self.correct, self.point, self.low, self.high)
        kept = [array[at] for array in arrays]
        return ResultArrays(tuple(self.tasks[i] for i in places), tuple(self.attempts[i] for i in places), *kept)

    def flat(self, array: NDArray) -> NDArray:
        """Samples and turns of a task in one row."""
        return array.reshape(len(self.tasks), self.samples * self.turns)

    def ever(self, flags: Flags) -> Floats:
        """Of each task 1 where any attempt has the flag, 0 where none has."""
        found: Floats = self.flat(flags).max(axis=1).astype(float)
        return found

    def best_point(self) -> Floats:
        """Of each task the highest speedup; NaN where no attempt was right and timed."""
        return self.best()[0]

    def best(self) -> tuple[Floats, Floats, Floats]:
        """The same with its interval."""
        return self._taken(self.point)

    def surest(self) -> tuple[Floats, Floats, Floats]:
        """Of each task the speedup, with its interval, of the attempt whose low end is highest; NaN where none was right and timed."""
        return self._taken(self.low)

    def _taken(self, rank: Floats) -> tuple[Floats, Floats, Floats]:
        if not len(self.tasks):
            return np.zeros(0), np.zeros(0), np.zeros(0)
        at = self.flat(rank).argmax(axis=1)[:, None]
        taken = [np.take_along_axis(self.flat(array), at, axis=1)[:, 0] for array in (self.point, self.low, self.high)]
        point, low, high = (np.where(taken[0] > 0, array, np.nan) for array in taken)
        return point, low, high

    def best_spread(self) -> Spread:
        """Of `best_point`."""
        return Spread.of(*self.best())

    def kept_spread(self) -> Spread:
        """Of `kept`: a module that stays as it is has no doubt about it."""
        point, low, high = self.surest()
        faster = np.nan_to_num(low) > 1
        return Spread.of(*(np.where(faster, array, 1.0) for array in (point, low, high)))

    def kept(self) -> Floats:
        """The speedup of a user who takes a kernel only where it is surely faster, and else keeps the module as it is, which is 1."""
        point, low, _ = self.surest()
        return np.where(np.nan_to_num(low) > 1, point, 1.0)


def result_arrays_of(run: BenchRun, baseline: str = "eager") -> ResultArrays:
    """As many samples and turns as the run was asked for, or has where it holds more. Drafts stand at the turns behind the others."""
    places = {task.id: place for place, task in enumerate(run.tasks)}
    cells = {attempt.key: attempt for attempt in run.attempts if attempt.task in places}
    samples = max([asked(run, "samples"), *(attempt.sample + 1 for attempt in cells.values())])
    turns = max([own_turns(run) + drafts_asked(run), *(attempt.turn + 1 for attempt in cells.values())])
    shape = (len(run.tasks), samples, turns)
    answered, compiled, correct = (np.zeros(shape, dtype=bool) for _ in range(3))
    point, low, high = (np.zeros(shape) for _ in range(3))
    by_task: list[list[BenchAttempt]] = [[] for _ in run.tasks]
    for attempt in cells.values():
        at = places[attempt.task], attempt.sample, attempt.turn
        by_task[at[0]].append(attempt)
        answered[at] = True
        if attempt.verdict is None:
            continue
        compiled[at] = attempt.verdict.outcome not in NOT_BUILT
        correct[at] = attempt.verdict.outcome.accepted
        found = timed(attempt.verdict, baseline)
        if found is not None:
            point[at], low[at], high[at] = found.point, found.low, found.high
    ordered = tuple(tuple(sorted(row, key=lambda attempt: attempt.key)) for row in by_task)
    return ResultArrays(run.tasks, ordered, answered, compiled, correct, point, low, high)


def timed(verdict: Verdict, baseline: str) -> Speedup | None:
    """The speedup of a right and honest candidate; None where it was not timed against this baseline."""
    found = verdict.speedup.get(baseline) if verdict.outcome.accepted else None
    if found is None or not (_finite(found.point) and found.point > 0):
        return None
    # An end without a number says nothing: JSON has no infinities, so a file may hold null there.
    low = found.low if _finite(found.low) and found.low > 0 else LEAST
    return Speedup(found.point, low, found.high if _finite(found.high) else math.inf)


def asked(run: BenchRun, name: str) -> int:
    """Samples or turns that the run's settings name; 1 where they name none."""
    value = run.settings.get(name)
    return value if isinstance(value, int) and value > 0 else 1


def drafts_asked(run: BenchRun) -> int:
    """Drafts of the compiler that a sample may have; in runs from before there were any, none."""
    value = run.settings.get("drafts")
    return value if isinstance(value, int) and value > 0 else 0


def own_turns(run: BenchRun) -> int:
    """Turns of a sample without drafts: none where the compiler is alone."""
    alone = drafts_asked(run) and run.settings.get("turns") == 0
    return 0 if alone else asked(run, "turns")


def unfit(task: BenchTask, attempts: Sequence[BenchAttempt]) -> str:
    """Why a task cannot be judged fairly; empty where it can."""
    if task.fitness:
        return task.fitness
    invalid = any(attempt.verdict is not None and attempt.verdict.outcome is Outcome.INVALID_TASK for attempt in attempts)
    return INVALID if invalid else ""


def ending(attempt: BenchAttempt) -> str:
    return NO_KERNEL if attempt.verdict is None else attempt.verdict.outcome.value


def task_ending(attempts: Sequence[BenchAttempt], baseline: str) -> str:
    """What a task came to: the outcome of its surest right attempt, or else of the failure that came furthest."""
    verdicts = [attempt.verdict for attempt in attempts if attempt.verdict is not None]
    right = [verdict for verdict in verdicts if verdict.outcome.accepted]
    if right:
        return max(right, key=lambda verdict: _low(verdict, baseline)).outcome.value
    found = {verdict.outcome for verdict in verdicts}
    furthest = next((outcome.value for outcome in FURTHEST if outcome in found), None)
    return furthest or (NO_KERNEL if attempts else NO_ATTEMPT)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _low(verdict: Verdict, baseline: str) -> float:
    found = timed(verdict, baseline)
    return found.low if found is not None else 0.0
