"""The charts of a benchmark run. Told apart without colours too: by brightness, by dashes, and by hatching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bottega.app.report_curves import COLOURS, Chart
from bottega.bench.bootstrap import Estimate
from bottega.bench.breakdowns import Family, Uplift
from bottega.bench.metrics import BenchSummary
from bottega.bench.result_arrays import ENDINGS, ResultArrays
from bottega.bench.scaling import GridCell

LOOKS: dict[str, tuple[str, str]] = {
    "faster": ("#08306b", ""),
    "same": ("#2e7ebc", ""),
    "slower": ("#94c4df", ""),
    "ambiguous": ("#deebf7", "...."),
    "incorrect": ("#7f2704", ""),
    "runtime_error": ("#d94801", ""),
    "timeout": ("#fd8d3c", ""),
    "compile_error": ("#fdd0a2", ""),
    "rejected": ("#111111", ""),
    "invalid_task": ("#bdbdbd", "////"),
    "no_kernel": ("#f2f2f2", "xxxx"),
    "no_attempt": ("#ffffff", ""),
}
"""Right ones blue, wrong ones orange, from dark to light; the rest black, grey or hatched."""
MOST_BARS = 24
MOST_DOTS = 150
"""Above so many tasks intervals are drawn as a band."""
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500)
HUES = tuple(COLOURS[place] for place in (0, 1, 3, 5, 6, 2))
"""In an order in which neighbours differ for every eye."""


def fast_curve(results_by_baseline: dict[str, ResultArrays]) -> Chart:
    """By baseline."""

    def paint(axes: Any) -> None:
        for place, (name, results) in enumerate(results_by_baseline.items()):
            for sure in (False, True):
                best = np.nan_to_num(results.flat(results.low if sure else results.point).max(axis=1))
                right = results.ever(results.correct) > 0
                edges = np.unique(np.clip(np.concatenate([[0.0, 3.0], best[best > 0]]), 0, 3.0))
                shares = [float(np.mean(right & (best > p))) if p > 0 else float(np.mean(right)) for p in edges]
                label = f"{name}, {'surely' if sure else 'by the point'}"
                axes.step(edges, shares, where="post", color=HUES[place], linestyle="dashed" if sure else "solid", label=label)
        axes.axvline(1.0, color="#0006", linewidth=0.8)
        axes.set_xlim(0, 3)
        _shares(axes)
        axes.set_xlabel("p")
        axes.legend(fontsize=8, frameon=False)

    return Chart("fast_p", "Share of all tasks whose best kernel is right and more than p times as fast.", paint)


def speed_spread(results: ResultArrays, baseline: str) -> Chart:
    point, low, high = results.surest()
    known = np.flatnonzero(np.isfinite(point))
    order = known[np.argsort(point[known])]
    without = len(point) - len(order)

    def paint(axes: Any) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

        ranks, middle = np.arange(1, len(order) + 1), point[order]
        ends = np.maximum(low[order], middle / 100), np.minimum(high[order], middle * 100)
        if len(order) <= MOST_DOTS:
            kinds = (
                (ends[0] > 1, HUES[0], "^"),
                (ends[1] < 1, HUES[1], "v"),
                ((ends[0] <= 1) & (ends[1] >= 1), COLOURS[5], "o"),
            )
            for wanted, colour, marker in kinds:
                axes.vlines(ranks[wanted], ends[0][wanted], ends[1][wanted], colors=colour, linewidth=1.6)
                axes.scatter(ranks[wanted], middle[wanted], color=colour, marker=marker, s=12, zorder=3)
        else:
            axes.fill_between(ranks, *ends, color=COLOURS[0], alpha=0.25, linewidth=0)
            axes.plot(ranks, middle, color=COLOURS[0])
        axes.axhline(1.0, color="#0008", linewidth=0.8)
        axes.set_yscale("log")
        bottom, top = min(ends[0].min(), 0.8), max(ends[1].max(), 1.25)
        axes.set_ylim(bottom / 1.05, top * 1.05)
        axes.yaxis.set_major_locator(FixedLocator(_ticks(bottom / 1.05, top * 1.05)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("tasks with a right kernel, slowest first")

    rest = f" {without} of {len(point)} tasks have none and are not drawn." if without else ""
    return Chart(
        f"Speedup over {baseline}",
        f"Each task's surest kernel, with the judge's interval. Upward, blue: surely faster; downward, orange: surely slower; grey: neither.{rest}",
        paint,
    )


def progress(cells: Sequence[GridCell], alone: Sequence[GridCell], title: str, caption: str, axis: str) -> Chart:
    """The best so far with its interval, and beside it each turn alone."""
    parts: tuple[tuple[str, Callable[[GridCell], Estimate]], ...] = (
        ("correct", lambda cell: cell.correct),
        ("fast_1", lambda cell: cell.fast[1.0]),
        ("fast_1 surely", lambda cell: cell.sure[1.0]),
    )

    def paint(axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        steps = np.arange(1, len(cells) + 1)
        for place, (name, part) in enumerate(parts):
            rows = [part(cell) for cell in cells]
            axes.plot(steps, [row.point for row in rows], color=HUES[place], marker="osD"[place], markersize=3.5, label=name)
            if all(row.low is not None for row in rows):
                axes.fill_between(
                    steps, [row.low for row in rows], [row.high for row in rows], color=HUES[place], alpha=0.12, linewidth=0
                )
            if alone:
                single = [part(cell).point for cell in alone]
                axes.plot(steps, single, color=HUES[place], linestyle="dotted", linewidth=1.2)
        _shares(axes)
        axes.set_xlabel(axis)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8, frameon=False)

    return Chart(title, caption, paint)


def budgets(cells: Sequence[GridCell]) -> Chart:
    """A line for each number of turns: where lines of more turns lie higher at equal kernels, refining beats drawing anew."""
    most = max(cell.turns for cell in cells)
    wanted = sorted({most, *(2**power for power in range(most.bit_length()) if 2**power <= most)})

    def paint(axes: Any) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        for place, turns in enumerate(wanted):
            row = sorted((cell for cell in cells if cell.turns == turns), key=lambda cell: cell.kernels)
            colour, marker = HUES[place % len(HUES)], "osD^vP*"[place % 7]
            label = f"{turns} turn{'s' if turns > 1 else ''}"
            axes.plot([cell.kernels for cell in row], [cell.kept.point for cell in row], color=colour, marker=marker, markersize=3.5,
                      label=label)  # fmt: skip
        top = max(cell.kernels for cell in cells)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator([2**power for power in range(top.bit_length()) if 2**power <= top]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}×"))
        axes.set_xlabel("kernels for a task")
        axes.legend(fontsize=8, frameon=False)

    caption = "Speedup as kept, by number of kernels. Higher lines of more turns: refining beats drawing anew at equal cost."
    return Chart("Samples or turns", caption, paint)


def outcomes(families: Sequence[Family]) -> Chart:
    rows = families[:MOST_BARS]
    present = [name for name in ENDINGS if any(row.outcomes.get(name) for row in rows)]

    def paint(axes: Any) -> None:
        left = np.zeros(len(rows))
        totals = np.array([max(1, sum(row.outcomes.values())) for row in rows])
        for name in present:
            widths = np.array([row.outcomes.get(name, 0) for row in rows]) / totals
            colour, hatch = LOOKS[name]
            axes.barh(range(len(rows)), widths, left=left, color=colour, hatch=hatch, edgecolor="#0008", linewidth=0.4,
                      label=name.replace("_", " "), height=0.75)  # fmt: skip
            left += widths
        axes.set_yticks(range(len(rows)), [f"{row.name} ({row.tasks})" for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.grid(False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.figure.legend(fontsize=8, frameon=False, ncols=3, loc="outside lower center")

    cut = f" The {len(rows)} largest of {len(families)} families." if len(rows) < len(families) else ""
    caption = f"Share of all answers, by operator family; in brackets its tasks.{cut}"
    return Chart("How answers ended", caption, paint, 0.8 + 0.2 * -(-len(present) // 3) + _height(len(rows)))


def skills(found: Sequence[Uplift]) -> Chart:
    rows = [each for each in found if each.gain.point is not None][:MOST_BARS]

    def paint(axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        for place, row in enumerate(rows):
            if row.gain.low is not None and row.gain.high is not None:
                axes.hlines(place, row.gain.low, row.gain.high, color=COLOURS[0], linewidth=2)
            axes.plot(row.gain.point, place, marker="o", color=COLOURS[0], markersize=5)
        axes.axvline(1.0, color="#0008", linewidth=0.8)
        axes.set_yticks(range(len(rows)), [_shortened(f"{row.skill} ({row.compared})") for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.4g}×")

    caption = "What answers with a card were worth over answers without it, at the same task and turn; in brackets the tasks compared."
    return Chart("Skills by uplift", caption, paint, 1.2 + _height(len(rows)))


def charts(results_by_baseline: dict[str, ResultArrays], summary: BenchSummary) -> list[Chart]:
    """What there is to draw of a run; the summary is that of the first baseline."""
    every = summary.every
    if not every.spending.answers:
        return []
    found = [fast_curve(results_by_baseline)]
    found += [speed_spread(each, name) for name, each in results_by_baseline.items() if np.isfinite(each.best_point()).any()]
    if summary.turns > 1:
        alone = every.by_turn if not summary.drafts else ()  # a draft alone says nothing: it is judged where it is needed
        caption = "Best of a sample up to each turn, with 95% intervals over tasks"
        caption += "; dotted: each turn alone." if alone else f"; the last {summary.drafts} are drafts of the compiler."
        found.append(progress(every.best_by_turn, alone, "By turn", caption, "turn"))
    if summary.samples > 1:
        caption = "Best of n samples with all their turns, expected over every choice of n; 95% intervals over tasks."
        found.append(progress(every.best_of_n, (), "Best of n", caption, "samples"))
    if summary.turns > 1 and summary.samples > 1 and not summary.drafts:
        found.append(budgets(every.grid))
    found.append(outcomes(summary.families))
    if any(each.gain.point is not None for each in summary.uplifts):
        found.append(skills(summary.uplifts))
    return found


def _shares(axes: Any) -> None:
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _ticks(bottom: float, top: float) -> list[float]:
    """Round numbers within, none too close to another; 1 is always among them."""
    found = [1.0]
    for tick in TICKS:
        if bottom <= tick <= top and all(abs(np.log(tick / other)) > 0.09 * np.log(top / bottom) for other in found):
            found.append(tick)
    return sorted(found)


def _height(rows: int) -> float:
    return 0.26 * max(1, rows)


def _shortened(text: str, most: int = 28) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most - most // 2) :]}"
