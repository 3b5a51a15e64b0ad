"""What there is to say about a benchmark run: in short, then drawn, then task by task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.bench.attempt import BenchRun
from bottega.bench.figures import GROUP_COLUMNS, NONE, authors, counted, group_cells, kernels, share, speed
from bottega.bench.metrics import BenchSummary, TaskGroup, baselines_of, summary
from bottega.bench.plots import bench_plots
from bottega.bench.report_tables import (
    by_task,
    family_endings,
    in_families,
    more_kernels,
    passes,
    refusals,
    spent,
    unfair,
    used_cards,
)
from bottega.bench.result_arrays import result_arrays_of
from bottega.bench.run_directory import read_run
from bottega.bench.scaling import THRESHOLDS
from bottega.core.verdict import Outcome
from bottega.episodes.delivery.page import Drawings, ReportPage, ReportTable

SHOWN = ("model", "backbone", "drafts", "language", "strategy", "samples", "turns", "library", "selection", "temperature", "precision", "mode",
         "quick", "candidates", "seed")  # fmt: skip
CONVENTIONS = (
    "Shares are taken over all tasks, as KernelBench does; a task without attempts is a failure.",
    "fast_p: the task's best kernel is right, honest and more than p times as fast. By the point: the estimate alone, KernelBench's sense. "
    "Surely: the judge's whole interval lies above p. The best of many kernels is partly luck; the second sense suffers less from it.",
    "Geometric mean and median over tasks with a right kernel say nothing about the others. Kept: over all tasks, where a kernel is used only "
    "if it is surely faster and the module stays as it is otherwise.",
    "Intervals are 95%, by drawing tasks with replacement, and speedups within the judge's own intervals (by turns and samples: tasks alone); "
    "where all tasks came to the same, the binomial bound. Of one task there is none.",
    "Compiled leaves out timeouts, which may have struck before or after the build.",
)


def bench_page(folder: Path) -> ReportPage:
    run = read_run(folder)
    found = [summary(run, baseline) for baseline in baselines_of(run)]
    results_by_baseline = {each.baseline: result_arrays_of(run, each.baseline) for each in found}
    first = found[0]
    return ReportPage(
        title=f"Benchmark: {run.settings.get('name') or run.settings.get('model') or folder.resolve().name}",
        facts=_facts(run, first),
        warnings=[*first.said, *(note for each in found[1:] for note in each.said if note not in first.said)],
        blocks=[
            _short(found),
            *_thresholds(found),
            *_levels(first),
            Drawings("Charts", bench_plots(results_by_baseline, first), "No attempt is finished yet."),
            *more_kernels(first),
            *passes(first),
            _endings(first),
            *in_families(first),
            *family_endings(first),
            *used_cards(first),
            spent(first),
            *unfair(run, first),
            *refusals(run),
            by_task(run, results_by_baseline),
        ],
        notes=CONVENTIONS,
    )


def short_page(run: BenchRun) -> ReportPage:
    """What is shown when a run is over."""
    found = [summary(run, baseline) for baseline in baselines_of(run)]
    first = found[0]
    return ReportPage(
        title=f"{kernels(first)} a task; 95% intervals over tasks",
        facts=[("answers", counted(first.every.outcomes.items())), *authors(first)],
        warnings=first.said,
        blocks=[_short(found), *_levels(first)],
    )


def _facts(run: BenchRun, found: BenchSummary) -> list[tuple[str, str]]:
    every = found.every
    settings = [f"{name} {_word(run.settings[name])}" for name in SHOWN if run.settings.get(name) not in (None, "", False)]
    where = [
        f"{name} {value}" for name, value in run.fingerprint.items() if isinstance(value, str | int | float) and value != ""
    ]
    done = every.tasks - every.unattempted
    tasks = f"{every.tasks}" + (f", {len(found.unfit)} of them cannot be judged fairly" if found.unfit else "")
    return [
        ("tasks", tasks + (f"; {done} attempted" if every.unattempted else "")),
        (
            "answers",
            f"{every.spending.answers}: {kernels(found)} for a task{' (samples × turns)' * (found.turns > found.drafts)}",
        ),
        *authors(found),
        ("run", ", ".join(settings) or NONE),
        ("where", ", ".join(where) or NONE),
    ]


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _columns(found: Sequence[BenchSummary]) -> list[tuple[str, TaskGroup]]:
    """All tasks against each baseline; and again without unfit ones, where there are any."""
    columns = [(each.baseline, each.every) for each in found]
    if found[0].unfit:
        columns += [(f"{each.baseline}, fit tasks", each.fit) for each in found]
    return columns


def _short(found: Sequence[BenchSummary]) -> ReportTable:
    columns = _columns(found)
    groups = [group for _, group in columns]
    rows = [
        ("tasks", *(str(group.tasks) for group in groups)),
        ("compiled", *(share(group.compiled) for group in groups)),
        ("correct", *(share(group.correct) for group in groups)),
        ("fast_1, as KernelBench", *(share(group.fast[1.0]) for group in groups)),
        ("fast_1, surely", *(share(group.sure[1.0]) for group in groups)),
        ("geometric mean", *(speed(group.speeds.geometric_mean, over=True) for group in groups)),
        ("median", *(speed(group.speeds.median, over=True) for group in groups)),
        ("kept, geometric mean", *(speed(group.speeds.kept, over=True) for group in groups)),
        ("kept, median", *(speed(group.speeds.kept_median, over=True) for group in groups)),
        ("mean, wrong as 0", *(speed(group.speeds.mean, over=True) for group in groups)),
        ("coverage of the best", *(share(group.coverage) for group in groups)),
    ]
    return ReportTable(
        "In short", ("against", *(name for name, _ in columns)), rows, "Of each task the best of all its attempts."
    )


def _thresholds(found: Sequence[BenchSummary]) -> list[ReportTable]:
    names = [name for each in found for name in (each.baseline, f"{each.baseline}, surely")]
    tables = []
    for title, groups in (("fast_p", [each.every for each in found]), ("fast_p of fit tasks", [each.fit for each in found])):
        rows = [
            (f"fast_{p:g}", *(share(figures[p]) for group in groups for figures in (group.fast, group.sure)))
            for p in THRESHOLDS
        ]
        tables.append(ReportTable(title, ("", *names), rows))
    return tables if found[0].unfit else tables[:1]


def _levels(found: BenchSummary) -> list[ReportTable]:
    groups = [group for group in found.groups[2:] if not group.fit_only or found.unfit]
    if not groups:
        return []
    rows = [(group.name + (", fit tasks" if group.fit_only else ""), str(group.tasks), *group_cells(group)) for group in groups]
    columns = ("", "tasks", *GROUP_COLUMNS)
    return [ReportTable(f"By level, against {found.baseline}", columns, rows)]


def _endings(found: BenchSummary) -> ReportTable:
    every, fit = found.every, found.fit
    rows = [
        (name.replace("_", " "), str(every.outcomes.get(name, 0)), str(every.task_outcomes.get(name, 0)))
        for name in dict.fromkeys((*Outcome, *every.outcomes, *every.task_outcomes))
    ]
    caption = f"Answers, and tasks by their best answer. Speed against {found.baseline}, which the judge's outcome speaks of."
    if found.unfit:
        caption += f" Tasks without unfit ones: {counted(fit.task_outcomes.items())}."
    return ReportTable("How they ended", ("", "answers", "tasks"), rows, caption)
