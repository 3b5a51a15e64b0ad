"""Curves of a run as inline SVG, drawn by matplotlib: small, sharp at every size, with text that can be searched."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bottega.app.display import spark
from bottega.core.errors import UsageError
from bottega.core.foreign_text import printable

COLOURS = ("#0b6bcb", "#c5500a", "#2e8540", "#8a3ab9", "#b3261e", "#5f6b7a", "#0f8b8d")
"""Told apart in print and by people who do not see all colours; dashes help beyond that."""
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (2, 4)), (0, (9, 4)), (0, (1, 5)))
"""One after the other, so that a line which lies on another one leaves it visible."""
WIDTH, HEIGHT = 4.2, 2.9
"""In inches; so small that the letters can be read on a phone."""
SMOOTHED = 40
"""From so many steps on a mean over a twentieth of them is drawn over the single ones."""


@dataclass(frozen=True)
class Line:
    name: str
    steps: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class CurvePanel:
    title: str
    caption: str
    """What a reader should look for, in a sentence."""
    lines: Sequence[Line]
    kind: Literal["lines", "exact", "stacked"] = "lines"
    """`exact` lines are never smoothed: a schedule has no noise."""

    def svg(self, number: int) -> str:
        return svg_of(self, number)

    def curves(self) -> list[tuple[str, ...]]:
        return [
            (line.name, f"{line.values[0]:.4g}", f"{line.values[-1]:.4g}", spark(list(line.values), 30))
            for line in self.lines
            if line.values
        ]


@dataclass(frozen=True)
class Chart:
    """Any other drawing."""

    title: str
    caption: str
    paint: Callable[[Any], None]
    """Draws onto matplotlib's axes."""
    height: float = HEIGHT
    """In inches."""

    def svg(self, number: int) -> str:
        return svg_of(self, number)

    def curves(self) -> list[tuple[str, ...]]:
        return []


def svg_of(panel: CurvePanel | Chart, number: int) -> str:
    """Raises `UsageError` where matplotlib is missing. `number` keeps the ids of several figures in one page apart."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.legend import Legend
    except ImportError:
        raise UsageError("a report with charts needs matplotlib: pip install 'bottega[report]'") from None
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": f"bottega-{number}", "font.size": 9, "font.family": "sans-serif"}
    ):
        height = panel.height if isinstance(panel, Chart) else HEIGHT
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        title = axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
        axes.grid(True, color="#0002", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        panel.paint(axes) if isinstance(panel, Chart) else _curves(axes, panel)
        for foreign in (title, *(text for legend in figure.findobj(Legend) for text in legend.get_texts())):
            foreign.set_parse_math(False)  # names come from outside, and may hold a dollar, or what no SVG may hold
            foreign.set_text(printable(foreign.get_text()))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    for mark in ('id="', "url(#", 'xlink:href="#'):
        svg = svg.replace(mark, f"{mark}f{number}-")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_attribute(panel.title)}" ', 1)


def _curves(axes: Any, panel: CurvePanel) -> None:
    from matplotlib.ticker import MaxNLocator

    names = labels([line.name for line in panel.lines])
    if panel.kind == "stacked":
        steps = sorted({step for line in panel.lines for step in line.steps})
        stacks = [[dict(zip(line.steps, line.values)).get(step, 0.0) for step in steps] for line in panel.lines]
        axes.stackplot(steps, *stacks, labels=names, colors=COLOURS, alpha=0.85)
    else:
        for place, line in enumerate(panel.lines):
            smooth = panel.kind == "lines" and len(line.values) >= SMOOTHED
            _draw(axes, replace(line, name=names[place]), COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)], smooth)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    values = [value for line in panel.lines for value in line.values]
    if panel.kind == "lines" and all(value == values[0] for value in values) and 0 <= values[0] <= 1:
        axes.set_ylim(-0.05, 1.05)  # a share that does not move: not a hundredth of it over the whole height
    if len(panel.lines) > 1:  # below the curves, never upon them
        axes.figure.legend(loc="outside lower left", fontsize=8, frameon=False, ncols=2, borderaxespad=0.2, handlelength=2.6)


def labels(names: Sequence[str]) -> list[str]:
    """Names in a legend: without a first or a last part that all of them share, which the title tells."""
    parts = [name.partition("/") for name in names]
    if len(names) < 2 or not all(rest for _, _, rest in parts):
        return list(names)
    if len({first for first, _, _ in parts}) == 1:
        return [rest for _, _, rest in parts]
    return [first for first, _, _ in parts] if len({rest for _, _, rest in parts}) == 1 else list(names)


def _draw(axes: object, line: Line, colour: str, dashes: Any, smooth: bool) -> None:
    plot = getattr(axes, "plot")  # noqa: B009
    finite = [(step, value) for step, value in zip(line.steps, line.values) if math.isfinite(value)]
    steps, values = [step for step, _ in finite], [value for _, value in finite]
    if not smooth:
        marker = "o" if len(values) < SMOOTHED else None
        plot(steps, values, color=colour, linestyle=dashes, marker=marker, markersize=2.5, linewidth=1.3, label=line.name)
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
