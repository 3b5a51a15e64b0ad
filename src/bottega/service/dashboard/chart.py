"""Charts as inline SVG without inline style: colours come from the page's CSS, so that they suit a dark page as well. Drawn in milliseconds,
because a page that is live draws them again with every change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bottega.core.foreign_text import html_text, one_line
from bottega.service.dashboard.html import Html

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 34
MOST_POINTS = 400
"""Of one line: more than a screen has columns tell no more."""
COLOURS = 7

Point = tuple[float, float]


@dataclass(frozen=True)
class PlotSeries:
    name: str
    points: Sequence[Point]
    kind: str = "line"
    """`line`, `dots`, `steps`, or `level`: one height over the whole width."""
    band: Sequence[tuple[float, float, float]] = ()
    """x, low and high of an interval around it."""
    labels: Sequence[str] = ()
    """What each dot says."""
    classes: Sequence[str] = ()
    """Of each dot."""


@dataclass(frozen=True)
class Plot:
    title: str
    series: Sequence[PlotSeries]
    x: str = ""
    y: str = ""
    log_y: bool = False
    log_x: bool = False
    low: float | None = None
    high: float | None = None
    whole_x: bool = True
    """Steps and numbers of kernels have no halves."""


def svg(plot: Plot) -> Html:
    """Empty where there is nothing to draw."""
    shown = [(place, each) for place, each in enumerate(plot.series) if each.points]
    heights = [y for _, each in shown for _, y in each.points] + [y for _, each in shown for row in each.band for y in row[1:]]
    heights = [y for y in heights if math.isfinite(y) and (y > 0 or not plot.log_y)]
    across = [x for _, each in shown if each.kind != "level" for x, _ in each.points if math.isfinite(x)]
    across = [x for x in across if x > 0 or not plot.log_x] or [1.0, 10.0]
    if not heights:
        return Html("")
    axes = _Axes(plot, across, heights)
    parts = [axes.grid()]
    parts += [_series(axes, place, each) for place, each in shown]
    title = html_text(one_line(plot.title, 120))
    legend = [
        f'<span class="key c{place % COLOURS}">{html_text(one_line(each.name, 60))}</span>'
        for place, each in shown
        if len(shown) > 1 and each.name
    ]
    return Html(
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
        f'<div class="legend">{"".join(legend)}</div></figure>'
    )


class _Axes:
    def __init__(self, plot: Plot, across: Sequence[float], heights: Sequence[float]) -> None:
        self.plot = plot
        self.x0, self.x1 = min(across), max(across)
        if plot.log_x:
            self.x0, self.x1 = math.log10(self.x0), math.log10(self.x1)
        if self.x0 == self.x1:
            self.x0, self.x1 = self.x0 - 0.5, self.x1 + 0.5
        low = min(heights) if plot.low is None else plot.low
        high = max(heights) if plot.high is None else plot.high
        if plot.log_y:
            low, high = math.log10(low), math.log10(high)
        room = (high - low) * 0.06 or abs(high) * 0.1 or 0.5
        self.y0 = low - (room if plot.low is None else 0)
        self.y1 = high + (room if plot.high is None else 0)

    def at(self, x: float, y: float) -> str | None:
        if not (math.isfinite(x) and math.isfinite(y)) or (self.plot.log_y and y <= 0) or (self.plot.log_x and x <= 0):
            return None
        return f"{self.across(x):.1f},{self.up(y):.1f}"

    def across(self, x: float) -> float:
        place = math.log10(x) if self.plot.log_x else x
        return LEFT + (place - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def up(self, y: float) -> float:
        share = ((math.log10(y) if self.plot.log_y else y) - self.y0) / (self.y1 - self.y0)
        return TOP + (1 - min(max(share, -0.02), 1.02)) * (HEIGHT - TOP - BOTTOM)

    def grid(self) -> str:
        parts = []
        for value in _log_ticks(self.y0, self.y1) if self.plot.log_y else _ticks(self.y0, self.y1, 5):
            height = self.up(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{value:.4g}</text>')
        for value in _log_ticks(self.x0, self.x1) if self.plot.log_x else _ticks(self.x0, self.x1, 6):
            if self.plot.whole_x and not self.plot.log_x and value != int(value):
                continue
            parts.append(
                f'<text x="{self.across(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:.5g}</text>'
            )
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{html_text(self.plot.x)}</text>')
        parts.append(f'<text x="4" y="{HEIGHT - 4}">{html_text(self.plot.y)}</text>')
        return "".join(parts)


def _series(axes: _Axes, place: int, series: PlotSeries) -> str:
    colour = f"c{place % COLOURS}"
    if series.kind == "level":
        height = axes.up(series.points[0][1])
        return f'<line class="curve level {colour}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
    if series.kind == "dots":
        return "".join(_dot(axes, colour, series, number) for number in range(len(series.points)))
    parts = []
    if series.band:
        above = [axes.at(x, high) for x, _, high in series.band]
        below = [axes.at(x, low) for x, low, _ in reversed(series.band)]
        parts.append(f'<polygon class="band {colour}" points="{" ".join(filter(None, [*above, *below]))}"/>')
    points = thinned(series.points)
    if series.kind == "steps":
        points = [corner for one, two in pairwise(points) for corner in (one, (two[0], one[1]))] + list(points[-1:])
    placed = [text for point in points if (text := axes.at(*point)) is not None]
    if len(placed) == 1:
        x, y = placed[0].split(",")
        return f'<circle class="dot {colour}" cx="{x}" cy="{y}" r="3"/>'
    parts.append(f'<polyline class="curve {colour}" points="{" ".join(placed)}"/>')
    return "".join(parts)


def _dot(axes: _Axes, colour: str, series: PlotSeries, number: int) -> str:
    placed = axes.at(*series.points[number])
    if placed is None:
        return ""
    x, y = placed.split(",")
    label = f"<title>{html_text(one_line(series.labels[number], 200))}</title>" if number < len(series.labels) else ""
    kind = series.classes[number] if number < len(series.classes) else colour
    return f'<circle class="dot {kind}" cx="{x}" cy="{y}" r="4">{label}</circle>'


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most so many points: of each stretch its lowest and its highest, so that no peak is lost."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(len(points) / (MOST_POINTS // 2))
    found: list[Point] = []
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        found += sorted({min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])})
    return found


def _ticks(low: float, high: float, count: int) -> list[float]:
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / count))
    step = next((step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count), step * 10)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, min(first + 2 * count, math.floor(high / step) + 1))]


def _log_ticks(low: float, high: float) -> list[float]:
    whole = [10.0**power for power in range(math.ceil(low), math.floor(high) + 1)]
    if len(whole) >= 2:
        return whole[-8:]
    factors = (1, 2, 5) if high - low > 0.4 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [factor * 10.0**power for power in powers for factor in factors if low <= math.log10(factor * 10.0**power) <= high]
    return found[:8] or [10 ** ((low + high) / 2)]
