"""Paired comparison of two runs over the same tasks, with intervals and sign tests. Pure functions of attempts.

Tasks are paired, so that an easy task is easy for both, and drawn together for the intervals. A win needs intervals that are apart: the
surest kernel of the one lies, as a whole interval, above that of the other; or only the one has a right kernel at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bottega.bench.attempt import BenchRun, BenchTask
from bottega.bench.bootstrap import RESAMPLES, SEED, Draws, Estimate, Floats, certain_reach
from bottega.bench.breakdowns import family_of
from bottega.bench.caveats import incomparable
from bottega.bench.result_arrays import Flags, ResultArrays, result_arrays_of, unfit
from bottega.bench.scaling import THRESHOLDS
from bottega.core.errors import UsageError

Sign = Literal["win", "loss", "tie"]


@dataclass(frozen=True)
class TaskPair:
    """One task in both runs. Speedups are those of the attempt whose low end is highest; None where none was right and timed."""

    task: BenchTask
    right: tuple[bool, bool]
    """In the base and in the other."""
    speedups: tuple[tuple[float, float, float] | None, tuple[float, float, float] | None]
    sign: Sign
    """Of the other against the base."""

    @property
    def change(self) -> float:
        """The logarithm of the ratio of speedups; 0 unless both were timed."""
        one, two = self.speedups
        return math.log(two[0] / one[0]) if one is not None and two is not None else 0.0

    def to_json(self) -> dict[str, Any]:
        spans = [None if each is None else dict(zip(("point", "low", "high"), each)) for each in self.speedups]
        facts = {"id": self.task.id, "name": self.task.name, "level": self.task.level, "family": self.task.family}
        return {**facts, "right": list(self.right), "speedups": spans, "sign": self.sign}


@dataclass(frozen=True)
class Difference:
    """The other run against the base, over some tasks that both have."""

    name: str
    tasks: int
    correct: Estimate
    fast: dict[float, Estimate]
    sure: dict[float, Estimate]
    """Differences of shares: above 0, the other has more."""
    ratio: Estimate
    """Geometric mean of the ratio of best speedups, over tasks where both have a right kernel."""
    kept_ratio: Estimate
    """The same over all tasks, where a kernel is used only if it is surely faster."""
    wins: int
    losses: int
    ties: int
    gained: int
    """Of the wins: tasks that only the other has a right kernel for."""
    lost: int
    """Of the losses: tasks that only the base has one for."""
    sign_test: float
    """The chance of wins and losses at least so uneven if neither run were better."""

    def to_json(self) -> dict[str, Any]:
        plain = {name: value for name, value in self.__dict__.items() if isinstance(value, str | int | float)}
        shares = {
            name: {f"{p:g}": estimate.to_json() for p, estimate in getattr(self, name).items()} for name in ("fast", "sure")
        }
        estimates = {name: getattr(self, name).to_json() for name in ("correct", "ratio", "kept_ratio")}
        return {**plain, **estimates, "fast": shares["fast"], "fast_surely": shares["sure"]}


@dataclass(frozen=True)
class Comparison:
    base: str
    other: str
    baseline: str
    groups: tuple[Difference, ...]
    """All tasks that both have, those of them that can be judged fairly, then levels and families."""
    pairs: tuple[TaskPair, ...]
    """Those that moved most first."""
    only_base: tuple[BenchTask, ...]
    only_other: tuple[BenchTask, ...]
    notes: tuple[str, ...]
    """What makes the two hard to compare."""

    @property
    def every(self) -> Difference:
        return self.groups[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "other": self.other,
            "baseline": self.baseline,
            "notes": list(self.notes),
            "groups": [group.to_json() for group in self.groups],
            "pairs": [pair.to_json() for pair in self.pairs],
            "only_base": [task.id for task in self.only_base],
            "only_other": [task.id for task in self.only_other],
        }


def compare(
    base: BenchRun, other: BenchRun, baseline: str = "eager", *, resamples: int = RESAMPLES, seed: int = SEED
) -> Comparison:
    """Raises `UsageError` where the runs share no task."""
    one, two = result_arrays_of(base, baseline), result_arrays_of(other, baseline)
    at_one, at_two = ({task.id: place for place, task in enumerate(results.tasks)} for results in (one, two))
    shared = [name for name in at_one if name in at_two]
    if not shared:
        raise UsageError(f"{base.folder} and {other.folder} share no task, so there is nothing to compare")
    one, two = one.only([at_one[name] for name in shared]), two.only([at_two[name] for name in shared])
    pairs = _pairs(one, two)

    def difference(name: str, wanted: Callable[[int], bool]) -> Difference:
        places = [place for place in range(len(shared)) if wanted(place)]
        return _difference(name, one.only(places), two.only(places), [pairs[place] for place in places], resamples, seed)

    groups = [difference("all", lambda place: True)]
    faults = [unfit(one.tasks[i], one.attempts[i]) or unfit(two.tasks[i], two.attempts[i]) for i in range(len(shared))]
    if any(faults):
        groups.append(difference("fit to be judged", lambda place: not faults[place]))
    labels = [_labels(task) for task in one.tasks]
    for kind in (0, 1):
        names = sorted({label[kind] for label in labels})
        if len(names) > 1:
            groups += [difference(name, lambda place, name=name, kind=kind: labels[place][kind] == name) for name in names]  # type: ignore[misc]
    return Comparison(
        base=str(base.folder),
        other=str(other.folder),
        baseline=baseline,
        groups=tuple(groups),
        pairs=tuple(sorted(pairs, key=_moved)),
        only_base=tuple(task for task in base.tasks if task.id not in at_two),
        only_other=tuple(task for task in other.tasks if task.id not in at_one),
        notes=tuple(incomparable(base, other, baseline)),
    )


def sign_test(wins: int, losses: int) -> float:
    """Exact, two-sided; ties say nothing."""
    count, most = wins + losses, max(wins, losses)
    tail = sum(math.comb(count, each) for each in range(most, count + 1)) / 2.0**count
    return float(min(1.0, 2 * tail))


def sign_of(one: tuple[float, float, float] | None, two: tuple[float, float, float] | None, right: tuple[bool, bool]) -> Sign:
    if right[0] != right[1]:
        return "win" if right[1] else "loss"
    if one is None or two is None:
        return "tie"
    return "win" if two[1] > one[2] else "loss" if two[2] < one[1] else "tie"


def _pairs(one: ResultArrays, two: ResultArrays) -> list[TaskPair]:
    spans = [np.stack(results.surest(), axis=1) for results in (one, two)]
    rights = [results.ever(results.correct) for results in (one, two)]
    found = []
    for place, task in enumerate(one.tasks):
        first, second = (_span(rows[place]) for rows in spans)
        right = bool(rights[0][place]), bool(rights[1][place])
        found.append(TaskPair(task, right, (first, second), sign_of(first, second, right)))
    return found


def _span(row: Floats) -> tuple[float, float, float] | None:
    return (float(row[0]), float(row[1]), float(row[2])) if np.isfinite(row[0]) else None


def _difference(
    name: str, one: ResultArrays, two: ResultArrays, pairs: Sequence[TaskPair], resamples: int, seed: int
) -> Difference:
    draws = Draws(len(pairs), resamples, seed)

    def share(first: Flags, second: Flags) -> Estimate:
        return _shift(draws, two.ever(second) - one.ever(first))

    signs = [pair.sign for pair in pairs]
    wins, losses = signs.count("win"), signs.count("loss")
    return Difference(
        name=name,
        tasks=len(pairs),
        correct=share(one.correct, two.correct),
        fast={p: share(one.fast(p), two.fast(p)) for p in THRESHOLDS},
        sure={p: share(one.fast(p, sure=True), two.fast(p, sure=True)) for p in THRESHOLDS},
        ratio=draws.geometric_mean(two.best_point() / one.best_point(), two.best_spread(), one.best_spread()),
        kept_ratio=draws.geometric_mean(two.kept() / one.kept(), two.kept_spread(), one.kept_spread()),
        wins=wins,
        losses=losses,
        ties=signs.count("tie"),
        gained=sum(pair.right == (False, True) for pair in pairs),
        lost=sum(pair.right == (True, False) for pair in pairs),
        sign_test=sign_test(wins, losses),
    )


def _shift(draws: Draws, change: Floats) -> Estimate:
    """Where no task changed, drawing shows no doubt; as many tasks of another set may have as the binomial bound allows."""
    found = draws.mean(change)
    if len(change) and not change.any():
        reach = certain_reach(len(change))
        return Estimate(0.0, -reach, reach, found.over)
    return found


def _labels(task: BenchTask) -> tuple[str, str]:
    return "no level" if task.level is None else f"level {task.level}", family_of(task)


def _moved(pair: TaskPair) -> tuple[bool, bool, float]:
    """Right against wrong first, then wins and losses, then by how much."""
    return pair.right[0] == pair.right[1], pair.sign == "tie", -abs(pair.change)
