"""The figures of a benchmark run, in KernelBench's terms and beside them in ours. Pure functions of attempts: no torch, no files.

Shares are taken over all tasks: one that was never attempted is a failure, and is named. A task's best attempt is the one with the highest
speedup among those that are right and honest; where an interval decides, the one whose low end is highest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, get_args

import numpy as np

from bottega.bench.attempt import Author, BenchAttempt, BenchRun
from bottega.bench.bootstrap import RESAMPLES, SEED, Draws, Estimate
from bottega.bench.breakdowns import Family, Spending, Uplift, families, outcomes_of, spending, uplifts
from bottega.bench.caveats import caveats, remarks
from bottega.bench.result_arrays import ENDINGS, ResultArrays, drafts_asked, result_arrays_of, task_ending, timed, unfit
from bottega.bench.scaling import THRESHOLDS, GridCell, best_by_turn, best_of_n, by_turn, chances, grid, usual_k
from bottega.judge.baselines import BASELINES


@dataclass(frozen=True)
class Speeds:
    """Speedups of the best attempt at each task; each estimate says over how many tasks it is taken."""

    geometric_mean: Estimate
    median: Estimate
    """Over tasks with a right kernel, as KernelBench has them: failures are left out of them."""
    mean: Estimate
    """Over all tasks, with 0 for what is not right: Kevin's. One task can carry it."""
    kept: Estimate
    kept_median: Estimate
    """Geometric mean and median over all tasks, where a kernel is used only if it is surely faster, and else the module stays, at 1."""


@dataclass(frozen=True)
class TaskGroup:
    """The figures of some tasks: all of them or one level, with those that cannot be judged fairly or without."""

    name: str
    fit_only: bool
    tasks: int
    unattempted: int
    outcomes: dict[str, int]
    """Answers by how they ended."""
    task_outcomes: dict[str, int]
    """Tasks by their best answer."""
    compiled: Estimate
    correct: Estimate
    fast: dict[float, Estimate]
    sure: dict[float, Estimate]
    speeds: Speeds
    pass_correct: dict[int, Estimate]
    pass_fast: dict[int, Estimate]
    pass_sure: dict[int, Estimate]
    """By k: at least one of k samples is right; faster by the point; surely faster."""
    coverage: Estimate
    """Mean share of the work that the best right kernel does itself, where it was measured."""
    spending: Spending
    by_turn: tuple[GridCell, ...]
    best_by_turn: tuple[GridCell, ...]
    best_of_n: tuple[GridCell, ...]
    grid: tuple[GridCell, ...] = ()
    """Of the whole run only."""


@dataclass(frozen=True)
class BenchSummary:
    baseline: str
    samples: int
    turns: int
    resamples: int
    seed: int
    groups: tuple[TaskGroup, ...]
    """`all` first, then the levels; each with unfit tasks and then without."""
    families: tuple[Family, ...]
    uplifts: tuple[Uplift, ...]
    unfit: dict[str, str]
    troubled: dict[str, str]
    """By the task's id, why."""
    notes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """Said beside the notes, and not recorded."""
    drafts: int = 0
    """Of the turns, the last so many are drafts of the compiler, which a sample has only where it needs them."""
    authors: dict[str, int] = field(default_factory=dict)
    """By author, of how many tasks the kernel that is kept, because it is surely faster; empty where there are no drafts."""

    @property
    def said(self) -> tuple[str, ...]:
        return (*self.notes, *self.remarks)

    @property
    def every(self) -> TaskGroup:
        """All tasks."""
        return self.groups[0]

    @property
    def fit(self) -> TaskGroup:
        """All tasks that can be judged fairly."""
        return self.groups[1]

    def to_json(self) -> dict[str, Any]:
        """Without drafts as it was before there were any: a record's figures are compared with those of its attempts."""
        unsaid = ("remarks",) if self.drafts else ("remarks", "drafts", "authors")
        return {name: _plain(value) for name, value in self.__dict__.items() if name not in unsaid}


def summary(run: BenchRun, baseline: str = "eager", *, resamples: int = RESAMPLES, seed: int = SEED) -> BenchSummary:
    """A run without tasks or without attempts has a summary too: it has no figures, and says so."""
    results = result_arrays_of(run, baseline)
    reasons = {task.id: reason for task, attempts in zip(results.tasks, results.attempts) if (reason := unfit(task, attempts))}
    groups: list[TaskGroup] = []
    for name, places in groupings(results).items():
        whole = not groups
        every = _group(name, results.only(places), baseline, resamples, seed, whole)
        fit = [place for place in places if results.tasks[place].id not in reasons]
        same = len(fit) == len(places)
        groups += [
            every,
            replace(every if same else _group(name, results.only(fit), baseline, resamples, seed, whole), fit_only=True),
        ]
    return BenchSummary(
        baseline=baseline,
        samples=results.samples,
        turns=results.turns,
        resamples=resamples,
        seed=seed,
        groups=tuple(groups),
        families=families(results, resamples, seed),
        uplifts=uplifts(results, baseline, resamples, seed),
        unfit=reasons,
        troubled={task.id: task.trouble for task in results.tasks if task.trouble},
        notes=tuple(caveats(run, results, baseline, reasons)),
        remarks=tuple(remarks(results, baseline)),
        drafts=drafts_asked(run),
        authors=kept_by_author(results, baseline) if drafts_asked(run) else {},
    )


def kept_by_author(results: ResultArrays, baseline: str) -> dict[str, int]:
    """Tasks whose surest kernel is surely faster, by who wrote that kernel."""
    counted = Counter(author for attempts in results.attempts if (author := kept_author(attempts, baseline)))
    return {author: counted[author] for author in get_args(Author)}


def kept_author(attempts: Sequence[BenchAttempt], baseline: str) -> Author | None:
    """Who wrote the kernel that a user of the whole keeps of a task; None where the module stays as it is."""
    spans = [(found.low, attempt) for attempt in attempts if attempt.verdict and (found := timed(attempt.verdict, baseline))]
    low, best = max(spans, key=lambda span: span[0], default=(0.0, None))
    return best.author if best is not None and low > 1 else None


def groupings(results: ResultArrays) -> dict[str, list[int]]:
    """Places of all tasks, and of each level's where there are several."""
    found: dict[str, list[int]] = {"all": list(range(len(results.tasks)))}
    levels = sorted({task.level for task in results.tasks}, key=lambda level: (level is None, level or 0))
    for level in levels if len(levels) > 1 or levels[:1] != [None] else []:
        name = "no level" if level is None else f"level {level}"
        found[name] = [place for place, task in enumerate(results.tasks) if task.level == level]
    return found


def baselines_of(run: BenchRun) -> tuple[str, ...]:
    """Those that any attempt was timed against: what was asked for first, which outcomes speak of, then the others."""
    found = {name for attempt in run.attempts if attempt.verdict is not None for name in attempt.verdict.speedup}
    order = list(dict.fromkeys([*run.settings.get("baselines", ()), *BASELINES, *sorted(found)]))
    return tuple(name for name in order if name in found) or ("eager",)


def _group(name: str, results: ResultArrays, baseline: str, resamples: int, seed: int, whole: bool) -> TaskGroup:
    draws = Draws(len(results.tasks), resamples, seed)
    flags = [results.compiled, *(results.fast(p) for p in THRESHOLDS), *(results.fast(p, sure=True) for p in THRESHOLDS)]
    shares = draws.shares(np.stack([results.ever(flag) for flag in flags], axis=1))
    fast = dict(zip(THRESHOLDS, shares[1:]))
    endings = Counter(task_ending(attempts, baseline) for attempts in results.attempts)
    return TaskGroup(
        name=name,
        fit_only=False,
        tasks=len(results.tasks),
        unattempted=sum(not attempts for attempts in results.attempts),
        outcomes=outcomes_of(attempts for attempts in results.attempts if attempts),
        task_outcomes={each: endings[each] for each in ENDINGS if endings[each]},
        compiled=shares[0],
        correct=fast[0.0],
        fast=fast,
        sure=dict(zip(THRESHOLDS, shares[1 + len(THRESHOLDS) :])),
        speeds=_speeds(results, draws),
        pass_correct=_pass_at(results, draws, results.correct),
        pass_fast=_pass_at(results, draws, results.fast(1.0)),
        pass_sure=_pass_at(results, draws, results.fast(1.0, sure=True)),
        coverage=draws.mean_of_known(_coverage(results, baseline)),
        spending=spending(results.attempts),
        by_turn=by_turn(results, draws),
        best_by_turn=best_by_turn(results, draws),
        best_of_n=best_of_n(results, draws),
        grid=grid(results, draws) if whole else (),
    )


def _speeds(results: ResultArrays, draws: Draws) -> Speeds:
    best, kept = results.best_point(), results.kept()
    best_spread, kept_spread = results.best_spread(), results.kept_spread()
    return Speeds(
        geometric_mean=draws.geometric_mean(best, best_spread),
        median=draws.median(best, best_spread),
        mean=draws.mean(np.nan_to_num(best)),
        kept=draws.geometric_mean(kept, kept_spread),
        kept_median=draws.median(kept, kept_spread),
    )


def _pass_at(results: ResultArrays, draws: Draws, flags: Any) -> dict[int, Estimate]:
    """A sample passes if any of its turns does."""
    right = flags.any(axis=2).sum(axis=1)
    return {k: draws.share(chances(right, results.samples, k)) for k in usual_k(results.samples)}


def _coverage(results: ResultArrays, baseline: str) -> Any:
    """Of each task's best right kernel; NaN where there is none, or where it could not be measured."""
    found = []
    for attempts in results.attempts:
        right = [attempt.verdict for attempt in attempts if attempt.verdict is not None and attempt.verdict.outcome.accepted]
        timings = [(speed.point if (speed := timed(verdict, baseline)) else 0.0) for verdict in right]
        share = right[int(np.argmax(timings))].coverage.get("share") if right else None
        found.append(float(share) if share is not None and math.isfinite(share) else math.nan)
    return np.array(found, dtype=float)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {name: _plain(item) for name, item in value.__dict__.items()}
    if isinstance(value, dict):
        return {f"{key:g}" if isinstance(key, float) else str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
