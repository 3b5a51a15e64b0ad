"""`bottega compare`: benchmark runs against a first one, task by task, with what makes them hard to compare said first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.bench_figures import GROUP_COLUMNS, NONE, group_cells, kernels, points, print_page, span, speed, sure_sign
from bottega.app.terminal import print_json, say
from bottega.bench.attempt import BenchRun
from bottega.bench.bootstrap import RESAMPLES, SEED, Estimate
from bottega.bench.compare import Comparison, Difference, compare
from bottega.bench.metrics import BenchSummary, baselines_of, summary
from bottega.bench.run_directory import read_run
from bottega.bench.scaling import THRESHOLDS
from bottega.core.errors import UsageError
from bottega.episodes.delivery.page import ReportPage, ReportTable, markdown
from bottega.judge.baselines import BASELINES


def compare_page(names: Sequence[str], runs: Sequence[BenchRun], summaries: Sequence[BenchSummary], found: Sequence[Comparison],
                 most: int) -> ReportPage:  # fmt: skip
    """The first run is the base; `found` holds each other run against it."""
    tables = [_runs(names, summaries)]
    for name, comparison in zip(names[1:], found):
        title = f"{name} against {names[0]}"
        tables += [
            _differences(title, comparison.every),
            _groups(title, comparison.groups),
            _moved(title, comparison, names[0], name, most),
        ]
    return ReportPage(
        title=f"Compared with {names[0]}: {', '.join(names[1:])}",
        facts=[(name, str(run.folder)) for name, run in zip(names, runs) if name != str(run.folder)],
        warnings=[f"{name}: {note}" for name, comparison in zip(names[1:], found) for note in comparison.notes],
        blocks=tables,
        notes=[line for name, comparison in zip(names[1:], found) for line in _left_out(names[0], name, comparison)],
    )


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


app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("compare")
def compare_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Folders of benchmark runs; the first is the base.")],
    baseline: Annotated[
        str | None,
        typer.Option(help="What speedups are against: eager, compile, autotune or best; the first run's first if left out."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="So many of the tasks that moved are listed.")] = 10,
    resamples: Annotated[int, typer.Option(min=100, max=100_000, help="Draws for each interval.")] = RESAMPLES,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = SEED,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output, with every task.")] = False,
    text: Annotated[bool, typer.Option("--markdown", help="Markdown on standard output.")] = False,
) -> None:
    """Compare benchmark runs, paired by task: what differs, how surely, and which tasks moved.

        bottega compare without-skills with-skills

    A win needs intervals that are apart. Runs of another judge, machine, baseline or budget are compared too, and it is said loudly.
    """
    if len(runs) < 2:
        raise UsageError("name at least two runs; the first is the one that the others are compared with")
    if baseline is not None and baseline not in BASELINES:
        raise UsageError(f"unknown baseline {baseline!r}; use one of {', '.join(BASELINES)}")
    if as_json and text:
        raise UsageError("--json and --markdown cannot both be written on standard output")
    read = [read_run(folder) for folder in runs]
    baseline = baseline or baselines_of(read[0])[0]
    found = [compare(read[0], other, baseline, resamples=resamples, seed=seed) for other in read[1:]]
    if as_json:
        print_json({"baseline": baseline, "base": str(runs[0]), "comparisons": [each.to_json() for each in found]})
        return
    summaries = [summary(run, baseline, resamples=resamples, seed=seed) for run in read]
    page = compare_page(short_names(runs), read, summaries, found, most)
    say(markdown(page), nl=False) if text else print_page(page)


def short_names(folders: list[Path]) -> list[str]:
    """The folders' own names, with as much of what stands before as tells them apart; numbered where nothing does."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[place] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names
