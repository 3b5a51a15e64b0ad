"""Parallel samples against serial turns: the expected metrics of s samples of t turns, for every s and t of one run.

A cell is the expectation over all choices of s among the run's samples, each cut off after t turns. Cells of equal s·t cost equally many
kernels and stand beside each other, as in Kevin's table; progress by turn and by samples are the grid's edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bottega.bench.bootstrap import Draws, Estimate, Floats, mapped
from bottega.bench.pass_at_k import chances, expected_best
from bottega.bench.result_arrays import Flags, ResultArrays

THRESHOLDS = (0.0, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)
"""The p of fast_p."""


@dataclass(frozen=True)
class GridCell:
    samples: int
    turns: int
    correct: Estimate
    fast: dict[float, Estimate]
    """By the point, in KernelBench's sense."""
    sure: dict[float, Estimate]
    """By the interval's low end."""
    mean: Estimate
    """Mean speedup of the best with 0 for what is not right, as Kevin has it."""
    kept: Estimate
    """Geometric mean where a kernel is taken only if it is surely faster."""
    answers: int = 0
    """Answers that it rests on."""

    @property
    def kernels(self) -> int:
        return self.samples * self.turns

    def to_json(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "turns": self.turns,
            "kernels": self.kernels,
            "answers": self.answers,
            "correct": self.correct.to_json(),
            "fast": {f"{p:g}": estimate.to_json() for p, estimate in self.fast.items()},
            "fast_surely": {f"{p:g}": estimate.to_json() for p, estimate in self.sure.items()},
            "mean_wrong_as_0": self.mean.to_json(),
            "kept": self.kept.to_json(),
        }


def cell(results: ResultArrays, draws: Draws, samples: int, turns: slice, thresholds: Sequence[float] = THRESHOLDS) -> GridCell:
    """The best of so many samples within a slice of the turns."""
    values = cell_values(results, samples, turns, thresholds)
    count = len(thresholds)
    shares = draws.shares(np.stack(values[: 1 + 2 * count], axis=1))
    mean, kept = draws.means(np.stack(values[1 + 2 * count :], axis=1))
    return GridCell(
        samples=samples,
        turns=len(range(*turns.indices(results.turns))),
        correct=shares[0],
        fast=dict(zip(thresholds, shares[1 : 1 + count])),
        sure=dict(zip(thresholds, shares[1 + count :])),
        mean=mean,
        kept=mapped(kept, lambda value: float(np.exp(value))),
        answers=int(results.answered[:, :, turns].sum()),
    )


def cell_values(results: ResultArrays, samples: int, turns: slice, thresholds: Sequence[float]) -> list[Floats]:
    """For each task: right, fast and surely fast for each threshold, the best speedup, and the logarithm of what a user keeps."""
    flags = [results.correct, *(results.fast(p) for p in thresholds), *(results.fast(p, sure=True) for p in thresholds)]
    found = [_chance(flag, samples, turns) for flag in flags]
    best = results.point[:, :, turns].max(axis=2)
    at = results.low[:, :, turns].argmax(axis=2)[:, :, None]
    low = np.take_along_axis(results.low[:, :, turns], at, axis=2)[:, :, 0]
    point = np.take_along_axis(results.point[:, :, turns], at, axis=2)[:, :, 0]
    worth = np.log(np.where(low > 1, point, 1.0))
    return [*found, expected_best(best, best, samples), expected_best(low, worth, samples)]


def grid(results: ResultArrays, draws: Draws, thresholds: Sequence[float] = (1.0,)) -> tuple[GridCell, ...]:
    return tuple(
        cell(results, draws, samples, slice(0, turns), thresholds)
        for turns in range(1, results.turns + 1)
        for samples in range(1, results.samples + 1)
    )


def by_turn(results: ResultArrays, draws: Draws) -> tuple[GridCell, ...]:
    """Each turn alone, of one sample."""
    return tuple(cell(results, draws, 1, slice(turn, turn + 1)) for turn in range(results.turns))


def best_by_turn(results: ResultArrays, draws: Draws) -> tuple[GridCell, ...]:
    """The best up to each turn, of one sample."""
    return tuple(cell(results, draws, 1, slice(0, turns)) for turns in range(1, results.turns + 1))


def best_of_n(results: ResultArrays, draws: Draws) -> tuple[GridCell, ...]:
    """The best of n samples with all their turns."""
    return tuple(cell(results, draws, samples, slice(0, results.turns)) for samples in range(1, results.samples + 1))


def equal_budgets(cells: Sequence[GridCell]) -> dict[int, tuple[GridCell, ...]]:
    """By number of kernels, those that can be spent in more than one way; the most parallel first."""
    found: dict[int, list[GridCell]] = {}
    for each in cells:
        found.setdefault(each.kernels, []).append(each)
    return {
        kernels: tuple(sorted(row, key=lambda each: -each.samples)) for kernels, row in sorted(found.items()) if len(row) > 1
    }


def _chance(flags: Flags, samples: int, turns: slice) -> Floats:
    right = flags[:, :, turns].any(axis=2).sum(axis=1)
    return chances(right, flags.shape[1], samples)
