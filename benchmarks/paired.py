"""Two benchmark runs over the tasks of which both have every answer: shares of each, and their difference with an interval.

A run that was stopped is counted as far as it came, so a task that it did not come to says nothing and is left out of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bottega.bench.attempt import BenchRun
from bottega.bench.bootstrap import Draws, Estimate, Floats, certain_reach
from bottega.bench.result_arrays import ResultArrays, asked, result_arrays_of
from bottega.bench.scaling import cell_values
from bottega.core.verdict import Outcome

MEASURES = ("right", "faster by the point", "surely faster")


@dataclass(frozen=True)
class Pairing:
    one: ResultArrays
    two: ResultArrays
    """The same tasks in the same order."""

    @property
    def tasks(self) -> int:
        return len(self.one.tasks)

    @property
    def first(self) -> Floats:
        """Of each task and measure 1 where any answer of the first run came to it."""
        return measured(self.one, self.one.samples, self.one.turns)

    @property
    def second(self) -> Floats:
        return measured(self.two, self.two.samples, self.two.turns)


@dataclass(frozen=True)
class Finding:
    measure: str
    base: float
    other: float
    """Shares of the tasks."""
    difference: float
    low: float | None
    high: float | None
    gained: int
    lost: int
    """Tasks on which the other did better, and worse."""

    @property
    def word(self) -> str:
        if self.low is not None and self.low > 0:
            return "holds"
        return "does not hold" if self.high is not None and self.high < 0 else "cannot be told"


@dataclass(frozen=True)
class Curve:
    """One number of answers: so many samples of the one run against so many turns of the other."""

    answers: int
    findings: tuple[Finding, ...]


def tried(run: BenchRun) -> list[str]:
    """Ids of tasks that have every answer that was asked for. One that the judge could not use says nothing of a model."""
    counts = Counter(attempt.task for attempt in run.attempts)
    useless = {each.task for each in run.attempts if each.verdict and each.verdict.outcome is Outcome.INVALID_TASK}
    wanted = asked(run, "samples") * asked(run, "turns")
    return [task.id for task in run.tasks if counts[task.id] >= wanted and task.id not in useless]


def shared(runs: Sequence[BenchRun], baseline: str = "eager") -> list[ResultArrays]:
    """A sheet of each run with the tasks that all of them tried, in the first one's order."""
    common = [task for task in tried(runs[0]) if all(task in set(tried(run)) for run in runs[1:])]
    found = []
    for run in runs:
        sheet = result_arrays_of(run, baseline)
        places = {task.id: place for place, task in enumerate(sheet.tasks)}
        found.append(sheet.only([places[task] for task in common]))
    return found


def pairing(base: BenchRun, other: BenchRun, baseline: str = "eager") -> Pairing:
    return Pairing(*shared((base, other), baseline))


def measured(sheet: ResultArrays, samples: int, turns: int) -> Floats:
    """Of each task, in columns, the chance that so many samples of so many turns come to each measure."""
    return np.stack(cell_values(sheet, samples, slice(0, turns), (1.0,))[: len(MEASURES)], axis=1)


def findings(base: Floats, other: Floats) -> tuple[Finding, ...]:
    """By measure. There must be a task."""
    draws = Draws(len(base))
    found = []
    for place, measure in enumerate(MEASURES):
        change = other[:, place] - base[:, place]
        estimate = _doubted(draws.mean(change), change)
        gained, lost = int((change > 0).sum()), int((change < 0).sum())
        shares = float(base[:, place].mean()), float(other[:, place].mean())
        found.append(Finding(measure, *shares, shares[1] - shares[0], estimate.low, estimate.high, gained, lost))
    return tuple(found)


def curve(pair: Pairing) -> list[Curve]:
    """Samples of the first run against turns of the second, for as many answers as both have."""
    most = min(pair.one.samples, pair.two.turns) if pair.tasks else 0
    return [
        Curve(answers, findings(measured(pair.one, answers, 1), measured(pair.two, 1, answers)))
        for answers in range(1, most + 1)
    ]


def _doubted(estimate: Estimate, change: Floats) -> Estimate:
    """Where every task changed alike, drawing shows no doubt; as many tasks of another set may differ as the binomial bound allows."""
    if float(change.max() - change.min()) > 1e-12:
        return estimate
    point, reach = float(change[0]), certain_reach(len(change))
    return Estimate(point, point - reach * (1 + point), point + reach * (1 - point), estimate.over)
