"""The plots of a benchmark run, as its report and the dashboard show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bottega.bench.bootstrap import RESAMPLES, Draws, Estimate
from bottega.bench.metrics import BenchSummary
from bottega.bench.result_arrays import ResultArrays
from bottega.bench.scaling import GridCell
from bottega.core.plot import Plot, PlotSeries

CURVE = tuple(round(0.25 * 1.08**place, 4) for place in range(46))
"""The p at which a curve of fast_p is drawn."""
SHORTEST = 30
"""Of them at least so many: up to a speedup of 2.3."""
MOST_DOTS = 150
"""Above so many tasks intervals are drawn as a band."""
DRAWN_CELLS = 400_000
"""Draws × tasks of a bootstrap: of very many tasks fewer draws are taken, whose intervals are as good."""


def draws_of(tasks: int) -> Draws:
    return Draws(tasks, max(100, min(RESAMPLES, DRAWN_CELLS // max(1, tasks))))


def fast_shares(arrays: ResultArrays, draws: Draws, at: Sequence[float], sure: bool) -> list[Estimate]:
    return draws.shares(np.stack([arrays.ever(arrays.fast(p, sure)) for p in at], axis=1))


def fast_plot(title: str, curves: Mapping[str, Sequence[Estimate]]) -> Plot:
    """fast_p over p with its interval, as far as any task reaches and a little further."""
    series = []
    for name, curve in curves.items():
        last = max((place for place, each in enumerate(curve) if each.point), default=0)
        shown = list(zip(CURVE, curve))[: max(last + 4, SHORTEST)]
        band = [(p, each.low or 0.0, each.high or 0.0) for p, each in shown if each.low is not None]
        series.append(PlotSeries(name, [(p, each.point or 0.0) for p, each in shown], band=band))
    caption = "Share of all tasks whose best kernel is right and more than p times as fast."
    return Plot(title, series, x="p", y="share", caption=caption, low=0.0, high=1.0, whole_x=False, form="{:.0%}")


def speed_plot(arrays: ResultArrays, baseline: str) -> Plot:
    point, low, high = arrays.surest()
    known = np.flatnonzero(np.isfinite(point))
    order = known[np.argsort(point[known])]
    middle = point[order]
    ends = np.maximum(low[order], middle / 100), np.minimum(high[order], middle * 100)
    ranks = range(1, len(order) + 1)
    points = [(float(rank), float(value)) for rank, value in zip(ranks, middle)]
    band = [(float(rank), float(one), float(two)) for rank, one, two in zip(ranks, *ends)]
    kinds = ["good" if one > 1 else "bad" if two < 1 else "plain" for _, one, two in band]
    labels = [f"{arrays.tasks[place].name or arrays.tasks[place].id}: {speed:.3g}×" for place, speed in zip(order, middle)]
    dots = len(order) <= MOST_DOTS
    tasks = PlotSeries("", points, "dots" if dots else "line", band, labels, kinds)
    level = [PlotSeries("", [(0.0, 1.0)], "level", colour=5)] if points else []
    without = len(point) - len(order)
    caption = "Each task's surest kernel, with the judge's interval, slowest first."
    caption += " Upward, green: surely faster; downward, red: surely slower; grey: neither." if dots else ""
    caption += f" {without} of {len(point)} tasks have none and are not drawn." if without else ""
    return Plot(f"Speedup over {baseline}", [tasks, *level], x="task", caption=caption, log_y=True, form="{:.3g}×")


def progress_plot(cells: Sequence[GridCell], alone: Sequence[GridCell], title: str, caption: str, axis: str) -> Plot:
    """The best so far with its interval, and beside it each turn alone."""
    best, single = [], []
    for place, name in enumerate(("correct", "fast_1", "fast_1 surely")):
        rows = [_figure(cell, name) for cell in cells]
        band = [
            (float(step), row.low, row.high) for step, row in enumerate(rows, 1) if row.low is not None and row.high is not None
        ]
        best.append(PlotSeries(name, [(float(step), row.point or 0.0) for step, row in enumerate(rows, 1)], band=band))
        if alone:
            points = [(float(step), _figure(cell, name).point or 0.0) for step, cell in enumerate(alone, 1)]
            single.append(PlotSeries(f"{name}, alone", points, colour=place))
    return Plot(title, [*best, *single], x=axis, y="share", caption=caption, low=0.0, high=1.0, form="{:.0%}")


def _figure(cell: GridCell, name: str) -> Estimate:
    return cell.correct if name == "correct" else cell.fast[1.0] if name == "fast_1" else cell.sure[1.0]


def budget_plot(cells: Sequence[GridCell]) -> Plot:
    """A line for each number of turns: where lines of more turns lie higher at equal kernels, refining beats drawing anew."""
    most = max(cell.turns for cell in cells)
    series = []
    for turns in sorted({most, *(2**power for power in range(most.bit_length()) if 2**power <= most)}):
        row = sorted((cell for cell in cells if cell.turns == turns), key=lambda cell: cell.kernels)
        points = [(float(cell.kernels), cell.kept.point) for cell in row if cell.kept.point is not None]
        series.append(PlotSeries(f"{turns} turn{'s' * (turns > 1)}", points))
    caption = "Speedup as kept, by number of kernels. Higher lines of more turns: refining beats drawing anew at equal cost."
    return Plot("Samples or turns", series, x="kernels for a task", caption=caption, log_x=True, form="{:.3g}×")


def bench_plots(results_by_baseline: Mapping[str, ResultArrays], summary: BenchSummary) -> list[Plot]:
    """What there is to draw of a run; the summary is that of the first baseline."""
    every, found = summary.every, list[Plot]()
    if not every.spending.answers:
        return []
    draws = draws_of(every.tasks)
    for name, arrays in results_by_baseline.items():
        curves = {told: fast_shares(arrays, draws, CURVE, sure) for told, sure in (("by the point", False), ("surely", True))}
        found.append(fast_plot(f"fast_p against {name}", curves))
    found += [speed_plot(each, name) for name, each in results_by_baseline.items()]
    if summary.turns > 1:
        alone = every.by_turn if not summary.drafts else ()  # a draft alone says nothing: it is judged where it is needed
        caption = "Best of a sample up to each turn, with 95% intervals over tasks"
        caption += "; alone: each turn by itself." if alone else f"; the last {summary.drafts} are drafts of the compiler."
        found.append(progress_plot(every.best_by_turn, alone, "By turn", caption, "turn"))
    if summary.samples > 1:
        caption = "Best of n samples with all their turns, expected over every choice of n; 95% intervals over tasks."
        found.append(progress_plot(every.best_of_n, (), "Best of n", caption, "samples"))
    if summary.turns > 1 and summary.samples > 1 and not summary.drafts:
        found.append(budget_plot(every.grid))
    return [plot for plot in found if not plot.empty]
