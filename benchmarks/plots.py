"""Figures of benchmark runs for the documentation, as SVG files: shares by level, fast_p by level, and samples against turns.

Runs are drawn over the tasks that all of them tried, so that a line which lies higher is a better run and not an easier set. Every figure
has a white ground of its own: it is read on a dark page as on a light one.

    python benchmarks/plots.py levels base=RUN sft=RUN sft+rl=RUN            # docs/figures/rates_*.svg, fast_p_*.svg
    python benchmarks/plots.py answers --parallel RUN --serial RUN           # docs/figures/answers.svg
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from paired import MEASURES, Curve, curve, measured, pairing, shared

from bottega.app.report_bench_charts import HUES
from bottega.app.report_curves import DASHES, Chart, svg_of
from bottega.bench.bootstrap import Floats
from bottega.bench.result_arrays import ResultArrays
from bottega.bench.run_directory import read_run
from bottega.core.errors import BottegaError, UsageError

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
STEPS: Floats = np.arange(0.5, 4.0001, 0.01)
"""The p of fast_p."""
MARKERS = "osD^vP"
FILES = {"right": "rates_right", "faster by the point": "rates_faster", "surely faster": "rates_surely_faster"}
Z = 1.959964

Out = Annotated[Path, typer.Option(metavar="DIR", help="Where the figures go.")]
Baseline = Annotated[str, typer.Option(help="What speedups are taken against: eager or compile.")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.command("levels")
def levels_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="NAME=RUN…", help="Folders of runs, with the names they are drawn under.")
    ],
    out: Out = FIGURES,
    baseline: Baseline = "eager",
) -> None:
    """Shares of right and of faster kernels by level, and fast_p curves by level, of several runs over the same tasks."""
    named = [each.partition("=") for each in runs]
    if wrong := [whole for whole, (name, _, folder) in zip(runs, named) if not name or not folder]:
        raise UsageError(f"{wrong[0]}: give a run as NAME=FOLDER")
    if len({name for name, _, _ in named}) < len(named):
        raise UsageError("two runs have one name")
    sheets = dict(zip([name for name, _, _ in named], shared([read_run(Path(folder)) for _, _, folder in named], baseline)))
    groups = by_level(next(iter(sheets.values())))
    if not groups:
        raise UsageError("the runs share no task that all of them tried")
    charts = {FILES[measure]: rates(sheets, groups, place, baseline) for place, measure in enumerate(MEASURES)}
    charts |= {f"fast_p_{name.replace(' ', '')}": fast_p(sheets, name, places, baseline) for name, places in groups.items()}
    _write(charts, out)


@app.command("answers")
def answers_command(
    parallel: Annotated[Path, typer.Option(metavar="RUN", help="Several samples of one turn.")],
    serial: Annotated[Path, typer.Option(metavar="RUN", help="One sample of several turns.")],
    out: Out = FIGURES,
    baseline: Baseline = "eager",
) -> None:
    """Samples against turns, by number of answers."""
    pair = pairing(read_run(parallel), read_run(serial), baseline)
    steps = curve(pair)
    if not steps:
        raise UsageError("the runs share no task that both of them tried")
    _write({"answers": answers(steps, pair.tasks, (parallel.resolve().name, serial.resolve().name), baseline)}, out)


def by_level(sheet: ResultArrays) -> dict[str, list[int]]:
    """Places of its tasks; those without a level last."""
    found: dict[str, list[int]] = {}
    order = sorted(range(len(sheet.tasks)), key=lambda place: (sheet.tasks[place].level is None, sheet.tasks[place].level or 0))
    for place in order:
        level = sheet.tasks[place].level
        found.setdefault("no level" if level is None else f"level {level}", []).append(place)
    return found


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many tasks."""
    centre, reach = share + Z * Z / (2 * count), Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return max(0.0, (centre - reach) / (1 + Z * Z / count)), min(1.0, (centre + reach) / (1 + Z * Z / count))


def rates(sheets: dict[str, ResultArrays], groups: dict[str, list[int]], measure: int, baseline: str) -> Chart:
    """A group of bars for each level, a bar for each run, with Wilson's interval."""
    values = {name: measured(sheet, sheet.samples, sheet.turns)[:, measure] for name, sheet in sheets.items()}
    width = 0.8 / len(sheets)

    def paint(axes: Any) -> None:
        for number, (name, found) in enumerate(values.items()):
            shares = [float(found[places].mean()) for places in groups.values()]
            ends = [wilson(share, len(places)) for share, places in zip(shares, groups.values())]
            at = np.arange(len(groups)) + (number - (len(sheets) - 1) / 2) * width
            reach = [
                [max(0.0, share - low) for share, (low, _) in zip(shares, ends)],
                [max(0.0, high - share) for share, (_, high) in zip(shares, ends)],
            ]
            axes.bar(at, shares, 0.9 * width, color=HUES[number % len(HUES)], label=name)
            axes.errorbar(at, shares, yerr=reach, fmt="none", ecolor="#222", elinewidth=1, capsize=2)
        axes.set_xticks(range(len(groups)), [f"{name}\n{len(places)} tasks" for name, places in groups.items()])
        axes.grid(False, axis="x")
        _shares(axes, "share of tasks")
        _legend(axes)

    word = MEASURES[measure]
    title = "Right kernels" if measure == 0 else f"Kernels {word}" if measure == 1 else "Surely faster kernels"
    than = "" if measure == 0 else f" Against {baseline}."
    told = (
        f"Share of tasks with a kernel that is {word}, by level, over tasks that all runs tried; 95 % intervals (Wilson).{than}"
    )
    return Chart(title, told, paint)


def fast_p(sheets: dict[str, ResultArrays], name: str, places: Sequence[int], baseline: str) -> Chart:
    """A line for each run."""

    def paint(axes: Any) -> None:
        for number, (run, sheet) in enumerate(sheets.items()):
            best = np.nan_to_num(sheet.only(places).best_point())
            shares = [float(np.mean(best >= p)) for p in STEPS]
            axes.plot(
                STEPS, shares, color=HUES[number % len(HUES)], linestyle=DASHES[number % len(DASHES)], linewidth=1.6, label=run
            )
        axes.axvline(1.0, color="#0006", linewidth=0.8)
        axes.set_xlim(STEPS[0], STEPS[-1])
        axes.set_xlabel(f"p, times as fast as {baseline}")
        _shares(axes, "share of tasks")
        _legend(axes)

    told = f"Share of the {len(places)} tasks whose best right kernel is at least p times as fast as {baseline}, by the point."
    return Chart(f"fast_p, {name}, {len(places)} tasks", told, paint)


def answers(steps: Sequence[Curve], tasks: int, names: tuple[str, str], baseline: str) -> Chart:
    """Samples and turns in two colours, measures by dashes and markers."""

    def paint(axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        for side, name in enumerate(names):
            for place, measure in enumerate(MEASURES):
                found = [(step.samples, step.turns)[side][place] for step in steps]
                at = np.array([step.answers for step in steps]) + (0.06 * place - 0.06) + (0.02 if side else -0.02)
                shares = [each.point or 0.0 for each in found]
                reach = [
                    [share - (share if each.low is None else each.low) for share, each in zip(shares, found)],
                    [(share if each.high is None else each.high) - share for share, each in zip(shares, found)],
                ]
                axes.errorbar(at, shares, yerr=np.maximum(reach, 0), color=HUES[side], linestyle=DASHES[place], marker=MARKERS[place],
                              markersize=3.5, linewidth=1.3, elinewidth=0.6, label=f"{name}, {measure}")  # fmt: skip
        axes.set_xlabel("answers to a task")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _shares(axes, "share of tasks")
        _legend(axes)

    told = (
        f"The best of so many samples and the best of so many turns in a row, over {tasks} tasks that both runs tried, against {baseline}; "
        "95 % intervals over tasks."
    )
    return Chart(f"Samples or turns, {tasks} tasks", told, paint, 3.6)


def _shares(axes: Any, name: str) -> None:
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylabel(name)


def _legend(axes: Any) -> None:
    axes.figure.legend(loc="outside lower center", fontsize=8, frameon=False, ncols=2, handlelength=2.6)


def _write(charts: dict[str, Chart], folder: Path) -> None:
    """The files, and the lines that show them in Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, chart) in enumerate(charts.items()):
        (folder / f"{name}.svg").write_text(svg_of(chart, number), encoding="utf-8")
        print(f"![{chart.title}. {chart.caption}](figures/{name}.svg)")


if __name__ == "__main__":
    try:
        app()
    except BottegaError as error:
        print(f"plots.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
