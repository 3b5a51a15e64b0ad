"""Metrics of a run by operator family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.bench.bootstrap import RESAMPLES, SEED, Draws, Estimate
from bottega.bench.result_arrays import ENDINGS, NO_ATTEMPT, ResultArrays, ending

UNNAMED = "no family"


@dataclass(frozen=True)
class Family:
    name: str
    tasks: int
    outcomes: dict[str, int]
    """Attempts by how they ended; a task without any counts once, as such."""
    correct: Estimate
    fast: Estimate
    """fast_1 by the point."""
    sure: Estimate
    """fast_1 by the interval's low end."""
    speedup: Estimate
    """Geometric mean of the best per task that is right."""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tasks": self.tasks,
            "outcomes": self.outcomes,
            "correct": self.correct.to_json(),
            "fast_1": self.fast.to_json(),
            "fast_1_surely": self.sure.to_json(),
            "geometric_mean": self.speedup.to_json(),
        }


def families(results: ResultArrays, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Family, ...]:
    """The largest first."""
    places: dict[str, list[int]] = {}
    for place, task in enumerate(results.tasks):
        places.setdefault(family_of(task), []).append(place)
    found = [_family(name, results.only(at), resamples, seed) for name, at in places.items()]
    return tuple(sorted(found, key=lambda each: (-each.tasks, each.name)))


def family_of(task: BenchTask) -> str:
    return task.family or UNNAMED


def outcomes_of(attempts: Iterable[tuple[BenchAttempt, ...]]) -> dict[str, int]:
    """Of all attempts, in the order of the endings. A task without attempts is told as one that has none."""
    counted = Counter(name for row in attempts for name in ([ending(attempt) for attempt in row] or [NO_ATTEMPT]))
    return {name: counted[name] for name in ENDINGS if counted[name]}


def _family(name: str, results: ResultArrays, resamples: int, seed: int) -> Family:
    draws = Draws(len(results.tasks), resamples, seed)
    right, fast, sure = (
        draws.share(results.ever(flags)) for flags in (results.correct, results.fast(1.0), results.fast(1.0, sure=True))
    )
    speedup = draws.geometric_mean(results.best_point(), results.best_spread())
    return Family(name, len(results.tasks), outcomes_of(results.attempts), right, fast, sure, speedup)
