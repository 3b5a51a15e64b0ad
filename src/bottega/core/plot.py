"""Curves and dots as inline SVG, drawn in milliseconds without a library: a report needs nothing else, and a live page draws again with every change.

Every element has its colour as an attribute and a class: a report shows the colours as they are, the dashboard's CSS suits them to a dark page.
Nothing has an inline style or an id, so that a page may hold many plots and forbid styles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bottega.core.foreign_text import html_text, one_line

WIDTH, HEIGHT = 460, 270
"""Without its legend, which lies below."""
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 32, 34
MOST_POINTS = 400
"""Of one line: more than a screen has columns tell no more."""
SMOOTHED = 40
"""From so many steps on a mean over a twentieth of them is drawn over the single ones."""
COLOURS = ("#0b6bcb", "#c5500a", "#2e8540", "#8a3ab9", "#b3261e", "#5f6b7a", "#0f8b8d")
DASHES = ("", "5 2", "1 2", "6 2 1 2", "2 4", "9 4", "1 5")
"""One after the other, so that a line which lies on another one leaves it visible."""
CLASSES = {"good": "#16713a", "weak": "#8a6100", "bad": "#b3261e", "worst": "#8a1a86", "plain": "#51606f", "live": "#0a5bb0"}
"""Of dots, by what they say; the first three also differ in shape."""
LETTER = 5.9
"""Width of a letter of a legend, about."""
SPARKS = "▁▂▃▄▅▆▇█"

Point = tuple[float, float]


@dataclass(frozen=True)
class PlotSeries:
    name: str
    points: Sequence[Point]
    kind: str = "line"
    """`line`, `dots`, `steps`, `area` (stacked on the areas before it), or `level`: one height over the whole width."""
    band: Sequence[tuple[float, float, float]] = ()
    """x, low and high of an interval around it."""
    labels: Sequence[str] = ()
    """What each dot says."""
    classes: Sequence[str] = ()
    """Of each dot."""
    colour: int | None = None
    """That of another series, by its place."""


@dataclass(frozen=True)
class Plot:
    title: str
    series: Sequence[PlotSeries]
    x: str = ""
    y: str = ""
    caption: str = ""
    """What a reader should look for, in a sentence."""
    log_y: bool = False
    log_x: bool = False
    low: float | None = None
    high: float | None = None
    whole_x: bool = True
    """Steps and numbers of kernels have no halves."""
    form: str = "{:.4g}"
    """Of a number at the upright axis."""
    smooth: bool = False
    """Long lines are noisy: their mean is drawn over them."""

    @property
    def empty(self) -> bool:
        return not any(math.isfinite(y) and (y > 0 or not self.log_y) for each in self.series for _, y in each.points)

    def svg(self, number: int = 0) -> str:
        """Empty where there is nothing to draw. `number` is for drawings with ids; this one has none."""
        return _svg(self)

    def curves(self) -> list[tuple[str, ...]]:
        """Of each line over steps its name, first and last value, and a line of text that shows it."""
        values = [(each.name, [y for _, y in each.points if math.isfinite(y)]) for each in self.series if self.x == "step"]
        return [(name, f"{found[0]:.4g}", f"{found[-1]:.4g}", spark(found, 30)) for name, found in values if found]


def spark(values: Sequence[float], width: int) -> str:
    """A curve in one line of text: each letter the mean of its share of the values."""
    count = min(width, len(values))
    parts = [values[len(values) * place // count : len(values) * (place + 1) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((mean - low) * scale)] for mean in means)


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those up to `window` steps around it; fewer at the ends."""
    near = (values[max(0, place - window) : place + window + 1] for place in range(len(values)))
    return [sum(part) / len(part) for part in near]


def _svg(plot: Plot) -> str:
    shown = [(place, each) for place, each in enumerate(_stacked(plot.series)) if each.points]
    heights = [y for _, each in shown for _, y in each.points] + [y for _, each in shown for row in each.band for y in row[1:]]
    heights = [y for y in heights if math.isfinite(y) and (y > 0 or not plot.log_y)]
    across = [x for _, each in shown if each.kind != "level" for x, _ in each.points if math.isfinite(x)]
    across = [x for x in across if x > 0 or not plot.log_x] or [1.0, 10.0]
    if plot.empty or not heights:
        return ""
    axes = _Axes(plot, across, heights)
    title = html_text(one_line(plot.title, 120))
    legend, height = _legend(shown)
    parts = [f'<text class="title" x="4" y="16" font-size="13" font-weight="600">{title}</text>', axes.grid()]
    parts += [_series(axes, place, each) for place, each in shown]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + height}" role="img" aria-label="{title}" font-family="system-ui, sans-serif" '
        f'font-size="11" fill="#444">{"".join(parts)}{legend}</svg>'
    )


def _stacked(series: Sequence[PlotSeries]) -> list[PlotSeries]:
    """Areas as bands on top of each other; everything else as it is."""
    steps = sorted({x for each in series if each.kind == "area" for x, _ in each.points})
    below, found = dict.fromkeys(steps, 0.0), []
    for each in series:
        if each.kind != "area":
            found.append(each)
            continue
        values = dict(each.points)
        band = [(x, below[x], below[x] + values.get(x, 0.0)) for x in steps]
        below = {x: high for x, _, high in band}
        found.append(replace(each, points=[(x, high) for x, _, high in band], band=band))
    return found


def _legend(shown: Sequence[tuple[int, PlotSeries]]) -> tuple[str, int]:
    """And its height. A key's width is an estimate: nothing here measures letters."""
    named = [(place, each) for place, each in shown if len(shown) > 1 and each.name]
    parts, x, y = [], float(LEFT), HEIGHT + 12
    for place, each in named:
        name = one_line(each.name, 60)
        wide = 30 + LETTER * len(name)
        if x > LEFT and x + wide > WIDTH:
            x, y = float(LEFT), y + 16
        parts.append(f'<line {_stroke(place, each, 2.2)} x1="{x:.0f}" x2="{x + 18:.0f}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(f'<text x="{x + 23:.0f}" y="{y}">{html_text(name)}</text>')
        x += wide + 10
    return "".join(parts), y + 8 - HEIGHT if named else 0


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
        if low == high and 0 <= low <= 1 and not plot.log_y:
            low, high = 0.0, 1.0  # a share that does not move: not a hundredth of it over the whole height
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
            parts.append(_level('class="grid" stroke="#ddd" stroke-width="0.7"', height))
            parts.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{self.plot.form.format(value)}</text>')
        for value in _log_ticks(self.x0, self.x1) if self.plot.log_x else _ticks(self.x0, self.x1, 6):
            if self.plot.whole_x and value != int(value):
                continue
            parts.append(
                f'<text x="{self.across(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:.5g}</text>'
            )
        parts.append(_level('class="axis" stroke="#888"', HEIGHT - BOTTOM))
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{html_text(self.plot.x)}</text>')
        parts.append(f'<text x="4" y="{HEIGHT - 4}">{html_text(self.plot.y)}</text>')
        return "".join(parts)


def _level(look: str, height: float) -> str:
    return f'<line {look} x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'


def _stroke(place: int, series: PlotSeries, width: float) -> str:
    colour = (place if series.colour is None else series.colour) % len(COLOURS)
    dash = "6 4" if series.kind == "level" else "" if series.kind in ("dots", "area") else DASHES[place % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="curve c{colour}" fill="none" stroke="{COLOURS[colour]}" stroke-width="{width}"{dashed}'


def _series(axes: _Axes, place: int, series: PlotSeries) -> str:
    colour = (place if series.colour is None else series.colour) % len(COLOURS)
    if series.kind == "level":
        return _level(_stroke(place, series, 1.5), axes.up(series.points[0][1]))
    if series.kind == "dots":
        return "".join(_dot(axes, colour, series, number) for number in range(len(series.points)))
    parts = []
    if series.band:
        above = [axes.at(x, high) for x, _, high in series.band]
        below = [axes.at(x, low) for x, low, _ in reversed(series.band)]
        opacity = 0.7 if series.kind == "area" else 0.16
        corners = " ".join(filter(None, [*above, *below]))
        parts.append(f'<polygon class="band c{colour}" fill="{COLOURS[colour]}" opacity="{opacity}" points="{corners}"/>')
    points, finite = series.points, [point for point in series.points if math.isfinite(point[1])]
    if axes.plot.smooth and series.kind == "line" and len(finite) >= SMOOTHED:
        parts.append(f'<g opacity="0.35">{_line(axes, place, series, finite, 0.6)}</g>')
        points = list(zip([x for x, _ in finite], smoothed([y for _, y in finite], len(finite) // 20)))
    return "".join([*parts, _line(axes, place, series, points, 1.8)])


def _line(axes: _Axes, place: int, series: PlotSeries, points: Sequence[Point], width: float) -> str:
    points = thinned(points)
    if series.kind == "steps":
        points = [corner for one, two in pairwise(points) for corner in (one, (two[0], one[1]))] + list(points[-1:])
    placed = [text for point in points if (text := axes.at(*point)) is not None]
    if len(placed) == 1:
        x, y = placed[0].split(",")
        colour = (place if series.colour is None else series.colour) % len(COLOURS)
        return f'<circle class="dot c{colour}" fill="{COLOURS[colour]}" cx="{x}" cy="{y}" r="3"/>'
    return f'<polyline {_stroke(place, series, width)} points="{" ".join(placed)}"/>'


def _dot(axes: _Axes, colour: int, series: PlotSeries, number: int) -> str:
    placed = axes.at(*series.points[number])
    if placed is None:
        return ""
    x, y = (float(part) for part in placed.split(","))
    label = f"<title>{html_text(one_line(series.labels[number], 200))}</title>" if number < len(series.labels) else ""
    kind = series.classes[number] if number < len(series.classes) else f"c{colour}"
    fill = CLASSES.get(kind, COLOURS[colour])
    bar = ""
    if number < len(series.band):
        low, high = (axes.up(end) for end in series.band[number][1:])
        bar = f'<line class="span {kind}" stroke="{fill}" stroke-width="1.6" x1="{x}" x2="{x}" y1="{low:.1f}" y2="{high:.1f}"/>'
    look = f'class="dot {kind}" fill="{fill}"'
    if kind in ("good", "bad"):
        end = y - 5 if kind == "good" else y + 5
        base = y + 3.5 if kind == "good" else y - 3.5
        return (
            f'{bar}<polygon {look} points="{x - 4.5:.1f},{base:.1f} {x + 4.5:.1f},{base:.1f} {x},{end:.1f}">{label}</polygon>'
        )
    return f'{bar}<circle {look} cx="{x}" cy="{y}" r="4">{label}</circle>'


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
    if len(whole) >= 3:
        return whole[-8:]
    factors = (1, 2, 5) if high - low > 1 else (1, 1.5, 2, 3, 5, 7) if high - low > 0.4 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [factor * 10.0**power for power in powers for factor in factors if low <= math.log10(factor * 10.0**power) <= high]
    return found[:10] or [10 ** ((low + high) / 2)]
