"""Uplift of a card: answers with it against answers without it, at the same task and the same turn only.

A card is chosen where it seems to fit, so the mean of all answers with it says more about the tasks than about the card.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bottega.bench.attempt import BenchAttempt
from bottega.bench.bootstrap import NOTHING, RESAMPLES, SEED, Draws, Estimate, mapped
from bottega.bench.result_arrays import ResultArrays, timed


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
