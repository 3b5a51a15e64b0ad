"""Parts of a run's figures: by operator family, by card, and what it took in tokens, money and seconds.

A card is chosen where it seems to fit, so the mean of all answers with it says more about the tasks than about the card: its uplift compares
answers with it and answers without it at the same task and the same turn only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.bench.bootstrap import NOTHING, RESAMPLES, SEED, Draws, Estimate, mapped
from bottega.bench.result_arrays import ENDINGS, NO_ATTEMPT, ResultArrays, ending, timed

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


@dataclass(frozen=True)
class Amount:
    total: float = 0.0
    mean: float = 0.0
    """For a task that was attempted."""
    median: float = 0.0


@dataclass(frozen=True)
class Spending:
    tasks: int
    """That were attempted."""
    answers: int
    prompt_tokens: Amount
    output_tokens: Amount
    money: Amount
    seconds: Amount

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def spending(attempts: Sequence[Sequence[BenchAttempt]]) -> Spending:
    rows = [row for row in attempts if row]
    return Spending(
        tasks=len(rows),
        answers=sum(1 + attempt.redrawn for row in rows for attempt in row),
        prompt_tokens=_amount([sum(attempt.prompt_tokens for attempt in row) for row in rows]),
        output_tokens=_amount([sum(attempt.output_tokens for attempt in row) for row in rows]),
        money=_amount([sum(attempt.money for attempt in row) for row in rows]),
        seconds=_amount([sum(attempt.seconds for attempt in row) for row in rows]),
    )


def _amount(values: Sequence[float]) -> Amount:
    if not values:
        return Amount()
    return Amount(float(sum(values)), sum(values) / len(values), float(median(values)))


@dataclass(frozen=True)
class Uplift:
    skill: str
    answers: int
    """That were shown the card."""
    correct: int
    """Of them."""
    compared: int
    """Tasks that have, at one turn, answers with the card and answers without it."""
    gain: Estimate
    """By what factor answers were worth more with it; an answer that is not right and faster is worth 1."""

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "gain": self.gain.to_json()}


def uplifts(results: ResultArrays, baseline: str, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Uplift, ...]:
    """The most useful first; cards that could not be compared last."""
    names = sorted({name for row in results.attempts for attempt in row for name in attempt.skills})
    found = [_uplift(name, results, baseline, resamples, seed) for name in names]
    return tuple(sorted(found, key=lambda each: (each.gain.point is None, -(each.gain.point or 0.0), each.skill)))


def worth(attempt: BenchAttempt, baseline: str) -> float:
    """The logarithm of the speedup of what is right and faster; 0 for anything else, since nobody has to use it."""
    found = timed(attempt.verdict, baseline) if attempt.verdict is not None else None
    return max(0.0, math.log(found.point)) if found is not None else 0.0


def _uplift(name: str, results: ResultArrays, baseline: str, resamples: int, seed: int) -> Uplift:
    shown = [attempt for row in results.attempts for attempt in row if name in attempt.skills]
    correct = sum(attempt.verdict is not None and attempt.verdict.outcome.accepted for attempt in shown)
    gains = [gain for row in results.attempts if (gain := _gain(name, row, baseline)) is not None]
    estimate = mapped(Draws(len(gains), resamples, seed).mean(np.array(gains)), math.exp) if gains else NOTHING
    return Uplift(name, len(shown), correct, len(gains), estimate)


def _gain(name: str, attempts: Sequence[BenchAttempt], baseline: str) -> float | None:
    """Over one task's turns that have both kinds of answers."""
    differences = []
    for turn in sorted({attempt.turn for attempt in attempts}):
        at = [attempt for attempt in attempts if attempt.turn == turn]
        with_it = [worth(attempt, baseline) for attempt in at if name in attempt.skills]
        without = [worth(attempt, baseline) for attempt in at if name not in attempt.skills]
        if with_it and without:
            differences.append(sum(with_it) / len(with_it) - sum(without) / len(without))
    return sum(differences) / len(differences) if differences else None
