"""Parallel samples against serial turns: the expected metrics of s samples of t turns, for every s and t of one run.

A cell is the expectation over all choices of s among the run's samples, each cut off after t turns. Cells of equal s·t cost equally many
kernels and stand beside each other, as in Kevin's table; progress by turn and by samples are the grid's edges. pass@k and the
expected best of k are exact over all subsets, so neither biased nor noisy: the first k samples, or a power of the share of right ones, would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bottega.bench.bootstrap import Draws, Estimate, Floats, mapped
from bottega.bench.result_arrays import Flags, ResultArrays


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The chance that at least one of k samples is right, drawn without replacement from `samples` of which `right` are."""
    if not 0 <= right <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} of {right} right among {samples} samples")
    return 1 - comb(samples - right, k) / comb(samples, k)


def chances(right: NDArray[np.int64], samples: int, k: int) -> Floats:
    """`pass_at_k` for each task, given how many of its samples are right."""
    table = np.array([pass_at_k(samples, count, k) for count in range(samples + 1)])
    found: Floats = table[right]
    return found


def best_of_weights(samples: int, k: int) -> Floats:
    """How likely each sample, in ascending order, is the best of k drawn ones."""
    if not 1 <= k <= samples:
        raise ValueError(f"the best of {k} among {samples} samples")
    return np.array([comb(rank, k - 1) / comb(samples, k) for rank in range(samples)])


def expected_best(ranks: Floats, worths: Floats, k: int) -> Floats:
    """For each task (row) the expected worth of that one of k samples whose rank is highest."""
    order = np.argsort(ranks, axis=1, kind="stable")
    found: Floats = np.take_along_axis(worths, order, axis=1) @ best_of_weights(ranks.shape[1], k)
    return found


def usual_k(samples: int) -> tuple[int, ...]:
    """1, 2, 4, … and all of them."""
    return tuple(sorted({samples, *(2**power for power in range(samples.bit_length()) if 2**power <= samples)} - {0}))


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
