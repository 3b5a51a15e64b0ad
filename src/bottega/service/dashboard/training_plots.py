"""The plots of a training run, as its report and the dashboard show them: the panels of `train/metric_panels.py`, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bottega.core.plot import Plot, PlotSeries
from bottega.train.metric_panels import RL_PANELS, SFT_PANELS, VALIDATION_PANELS, Panel, matching

LIBRARY_PANEL: Panel = (
    "The library",
    "At each checkpoint: its admitted cards (`cards`), and all (`library`).",
    ("cards", "library"),
    "exact",
)
HELD_OUT_PANEL: Panel = ("Held-out loss", "In all and by role.", ("*nll",), "exact")

Rows = Sequence[tuple[int, Mapping[str, float]]]
"""Steps with their figures."""


@dataclass(frozen=True)
class Measurements:
    """What a run measured, by where."""

    train: Rows
    held_out: Rows = ()
    checkpoints: Rows = ()


def training_plots(kind: str, runs: Mapping[str, Measurements]) -> list[Plot]:
    """Those in which anything was measured. Of several runs each line carries the run's name."""
    panels = [(panel, "train") for panel in (RL_PANELS if kind == "rl" else SFT_PANELS)]
    if kind == "rl":
        panels[1:1] = [(panel, "held_out") for panel in VALIDATION_PANELS]
        panels.append((LIBRARY_PANEL, "checkpoints"))
    else:
        panels.insert(1, (HELD_OUT_PANEL, "held_out"))
    found = []
    for (title, caption, names, how), part in panels:
        series = [
            PlotSeries(f"{run} {each.name}" if len(runs) > 1 else each.name, each.points, each.kind)
            for run, measured in runs.items()
            for each in _series(getattr(measured, part), names, "area" if how == "stacked" and len(runs) == 1 else "line")
        ]
        found.append(Plot(title, series, x="step", caption=caption, smooth=how == "lines"))
    return [plot for plot in found if not plot.empty]


def _series(rows: Rows, names: Sequence[str], kind: str) -> list[PlotSeries]:
    wanted = matching(names, {name for _, values in rows for name in values})
    return [PlotSeries(label, points_of(rows, name), kind) for label, name in zip(labels(wanted), wanted)]


def points_of(rows: Rows, name: str) -> list[tuple[float, float]]:
    return [(float(step), values[name]) for step, values in rows if name in values]


def labels(names: Sequence[str]) -> list[str]:
    """Names in a legend: without a first or a last part that all of them share, which the title tells."""
    parts = [name.partition("/") for name in names]
    if len(names) < 2 or not all(rest for _, _, rest in parts):
        return list(names)
    if len({first for first, _, _ in parts}) == 1:
        return [rest for _, _, rest in parts]
    return [first for first, _, _ in parts] if len({rest for _, _, rest in parts}) == 1 else list(names)
