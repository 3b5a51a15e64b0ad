"""Curves of a run as inline SVG, drawn by matplotlib: small, sharp at every size, with text that can be searched."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bottega.core.errors import UsageError

COLOURS = ("#0b6bcb", "#c5500a", "#2e8540", "#8a3ab9", "#b3261e", "#5f6b7a", "#0f8b8d")
"""Told apart in print and by people who do not see all colours; dashes help beyond that."""
DASHES = ("solid", "dashed", "dotted", "dashdot")
SMOOTHED = 40
"""From so many steps on a mean over a twentieth of them is drawn over the single ones."""


@dataclass(frozen=True)
class Line:
    name: str
    steps: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class Panel:
    title: str
    told: str
    """What a reader should look for, in a sentence."""
    lines: Sequence[Line]
    kind: Literal["lines", "stacked"] = "lines"
    scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True)
class Chart:
    """Any other drawing. Small, so that its letters can be read on a phone."""

    title: str
    told: str
    paint: Callable[[Any], None]
    """Draws onto matplotlib's axes."""
    height: float = 2.9
    """In inches."""


def drawn(panel: Panel | Chart, number: int) -> str:
    """Raises `UsageError` where matplotlib is missing. `number` keeps the ids of several figures in one page apart."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("a report with charts needs matplotlib: pip install 'bottega[report]'") from None
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": f"bottega-{number}", "font.size": 9, "font.family": "sans-serif"}
    ):
        size = (4.2, panel.height) if isinstance(panel, Chart) else (5.6, 3.0)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
        axes.grid(True, color="#0002", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        panel.paint(axes) if isinstance(panel, Chart) else _curves(axes, panel)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    for mark in ('id="', "url(#", 'xlink:href="#'):
        svg = svg.replace(mark, f"{mark}f{number}-")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_attribute(panel.title)}" ', 1)


def _curves(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    if panel.kind == "stacked":
        steps = sorted({step for line in panel.lines for step in line.steps})
        stacks = [[dict(zip(line.steps, line.values)).get(step, 0.0) for step in steps] for line in panel.lines]
        axes.stackplot(steps, *stacks, labels=[line.name for line in panel.lines], colors=COLOURS, alpha=0.85)
    else:
        for place, line in enumerate(panel.lines):
            _draw(axes, line, COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)])
    if panel.scale == "log" and any(value > 0 for line in panel.lines for value in line.values):
        axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(panel.lines) > 1:
        axes.legend(fontsize=8, frameon=False, ncols=2 if len(panel.lines) > 4 else 1)


def _draw(axes: object, line: Line, colour: str, dashes: str) -> None:
    plot = getattr(axes, "plot")  # noqa: B009
    finite = [(step, value) for step, value in zip(line.steps, line.values) if math.isfinite(value)]
    steps, values = [step for step, _ in finite], [value for _, value in finite]
    if len(values) < SMOOTHED:
        plot(steps, values, color=colour, linestyle=dashes, marker="o", markersize=2.5, linewidth=1.3, label=line.name)
        return
    plot(steps, values, color=colour, linewidth=0.6, alpha=0.3)
    plot(steps, smoothed(values, len(values) // 20), color=colour, linestyle=dashes, linewidth=1.6, label=line.name)


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those up to `window` steps around it; fewer at the ends."""
    found = []
    for place in range(len(values)):
        near = values[max(0, place - window) : place + window + 1]
        found.append(sum(near) / len(near))
    return found


def _attribute(text: str) -> str:
    return re.sub(r'[<>&"]', " ", text)
