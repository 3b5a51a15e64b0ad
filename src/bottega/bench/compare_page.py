"""Benchmark runs beside a first one, as a page: what differs, how surely, and which tasks moved."""

from __future__ import annotations

from collections.abc import Sequence

from bottega.bench.attempt import BenchRun
from bottega.bench.bootstrap import Estimate
from bottega.bench.compare import Comparison, Difference
from bottega.bench.figures import GROUP_COLUMNS, NONE, group_cells, kernels, points, span, speed, sure_sign
from bottega.bench.metrics import BenchSummary
from bottega.bench.scaling import THRESHOLDS
from bottega.episodes.delivery.page import ReportPage, ReportTable


def compare_page(names: Sequence[str], runs: Sequence[BenchRun], summaries: Sequence[BenchSummary], found: Sequence[Comparison],
                 most: int) -> ReportPage:  # fmt: skip
    """The first run is the base; `found` holds each other run against it."""
    tables = [_runs(names, summaries)]
    for name, comparison in zip(names[1:], found):
        tables += comparison_tables(names[0], name, comparison, most)
    return ReportPage(
        title=f"Compared with {names[0]}: {', '.join(names[1:])}",
        facts=[(name, str(run.folder)) for name, run in zip(names, runs) if name != str(run.folder)],
        warnings=[f"{name}: {note}" for name, comparison in zip(names[1:], found) for note in comparison.notes],
        blocks=tables,
        notes=[line for name, comparison in zip(names[1:], found) for line in _left_out(names[0], name, comparison)],
    )


def comparison_tables(base: str, other: str, found: Comparison, most: int) -> list[ReportTable]:
    title = f"{other} against {base}"
    moved = _moved(title, found, base, other, most)
    return [_differences(title, found.every), _groups(title, found.groups), *([moved] if moved.rows else [])]


def _runs(names: Sequence[str], summaries: Sequence[BenchSummary]) -> ReportTable:
    columns = ("run", "tasks", "kernels a task", *GROUP_COLUMNS)
    rows = [
        (
            name,
            str(found.every.tasks),
            kernels(found) if found.drafts else str(found.samples * found.turns),
            *group_cells(found.every),
        )
        for name, found in zip(names, summaries)
    ]
    caption = (
        f"Each run over its own tasks, against {summaries[0].baseline}. Geometric mean and median over tasks with a right kernel; kept: over "
        "all tasks, a kernel used only where it is surely faster. In brackets 95% intervals over tasks."
    )
    return ReportTable("The runs", columns, rows, caption)


def _differences(title: str, every: Difference) -> ReportTable:
    rows = [("correct", points(every.correct), "", _surely(every.correct, 0.0))]
    for p in THRESHOLDS[1:]:
        rows.append((f"fast_{p:g}", points(every.fast[p]), points(every.sure[p]), _surely(every.sure[p], 0.0)))
    rows += [
        ("speedup, both right", speed(every.ratio, over=True), "", _surely(every.ratio, 1.0)),
        ("speedup, as kept", "", speed(every.kept_ratio, over=True), _surely(every.kept_ratio, 1.0)),
        ("wins, losses, ties", "", _score(every), f"sign test p = {every.sign_test:.2g}"),
    ]
    caption = (
        f"Over {every.tasks} tasks that both have. Shares as differences, speedups as ratios; 95% intervals of tasks drawn in pairs. "
        "A win needs intervals that are apart, or a right kernel where the other has none."
    )
    return ReportTable(title, ("", "by the point, as KernelBench", "surely, by intervals", "beyond chance"), rows, caption)


def _groups(title: str, groups: Sequence[Difference]) -> ReportTable:
    columns = ("", "tasks", "correct", "fast_1", "fast_1 surely", "speedup, both right", "wins, losses, ties")
    rows = [
        (
            group.name,
            str(group.tasks),
            points(group.correct),
            points(group.fast[1.0]),
            points(group.sure[1.0]),
            speed(group.ratio, over=True),
            _score(group),
        )
        for group in groups
    ]
    return ReportTable(f"{title}: levels and families", columns, rows)


def _moved(title: str, comparison: Comparison, base: str, other: str, most: int) -> ReportTable:
    pairs = [pair for pair in comparison.pairs if pair.sign != "tie" or pair.change]
    rows = [
        (
            pair.task.name or pair.task.id,
            pair.task.family or NONE,
            span(pair.speedups[0], pair.right[0]),
            span(pair.speedups[1], pair.right[1]),
            pair.sign,
        )
        for pair in pairs[:most]
    ]
    more = f"; {len(pairs) - most} more moved less" if len(pairs) > most else ""
    return ReportTable(
        f"{title}: tasks that moved most",
        ("task", "family", base, other, ""),
        rows,
        f"Each with the judge's own interval{more}.",
    )


def _score(group: Difference) -> str:
    counts = ((group.wins, "win", "wins"), (group.losses, "loss", "losses"), (group.ties, "tie", "ties"))
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts]
    if group.gained:
        parts[0] += f" ({group.gained} newly right)"
    if group.lost:
        parts[1] += f" ({group.lost} no longer right)"
    return ", ".join(parts)


def _surely(estimate: Estimate, neutral: float) -> str:
    return "yes" if sure_sign(estimate, neutral) else "no"


def _left_out(base: str, other: str, comparison: Comparison) -> list[str]:
    found = []
    for name, tasks in ((base, comparison.only_base), (other, comparison.only_other)):
        if tasks:
            listed = ", ".join(task.name or task.id for task in tasks[:8]) + (" …" if len(tasks) > 8 else "")
            found.append(f"only in {name}, and not compared ({len(tasks)}): {listed}")
    return found
