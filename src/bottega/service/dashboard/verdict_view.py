"""A verdict as a reader wants it: the outcome with its reasons first, then speed, time against the roofline, profile and error."""

from __future__ import annotations

import difflib
from typing import Any

from bottega.core.plot import Plot, PlotSeries
from bottega.service.dashboard.event_rows import numbers_of, verdict_row
from bottega.service.dashboard.html import (
    Html,
    badge,
    charts,
    code,
    el,
    facts,
    folded,
    joined,
    number,
    section,
    speed,
    table,
    words,
)
from bottega.service.dashboard.page import raw, tree
from bottega.service.dashboard.reading import list_at, number_at, object_at, text_at, whole_at

MOST_DIFF = 300_000
MOST_DIFF_LINES = 3000
"""Comparing takes time that grows faster than the text."""
CANDIDATE, FLOOR = "candidate", "floor"


def verdict_html(verdict: dict[str, Any]) -> Html:
    row = verdict_row(verdict)
    broken = [
        f"{text_at(each, 'name', longest=80)}: {text_at(each, 'detail', longest=2000)}"
        for each in list_at(verdict, "violations")[:20]
    ]
    notes = [note[:1000] for note in list_at(verdict, "notes")[:20] if isinstance(note, str)]
    speeds = [(name, speed(span)) for name, span in row.speedup.items()]
    parts = [
        el(
            "p",
            badge(row.outcome or "no verdict"),
            " ",
            speed(row.best()),
            f" against {row.baseline}" if row.baseline else "",
            cls="big",
        ),
        el("ul", *(el("li", text) for text in broken), cls="warnings") if broken else "",
        words(diagnosis) if (diagnosis := text_at(verdict, "diagnosis")) else "",
        el("ul", *(el("li", note) for note in notes)) if notes else "",
        section("Speedup", table(("against", "times as fast, with its interval"), speeds)) if len(speeds) > 1 else "",
        roofline_html(row.times_ms),
        coverage_html(object_at(verdict, "coverage")),
        profile_html(object_at(verdict, "profile")),
        section("Numerical error", tree(object_at(verdict, "error"))) if object_at(verdict, "error") else "",
        stages_html(numbers_of(verdict, "stages_s")),
        folded(
            "Machine and sandbox",
            tree({name: verdict.get(name) for name in ("fingerprint", "sandbox", "memory") if verdict.get(name)}),
        ),
        raw(verdict, "The whole verdict as JSON"),
    ]
    return joined(*parts)


def roofline_html(times: dict[str, float]) -> Html:
    """Times beside the floor that the device's bandwidth and arithmetic allow."""
    if not times:
        return Html("")
    floor, most = times.get(FLOOR), max(times.values())
    order = sorted(times, key=lambda name: (name != FLOOR, times[name]))
    rows = []
    for name in order:
        reached = f"{floor / times[name]:.0%} of the roofline" if floor and times[name] and name != FLOOR else ""
        kind = "good" if name == CANDIDATE else "weak" if name == FLOOR else "plain"
        rows.append((name, f"{times[name]:.4g} ms", bar(times[name] / most if most else 0, kind), reached))
    return section("Time against the roofline", table(("", "median", "", ""), rows))


def coverage_html(coverage: dict[str, Any]) -> Html:
    if not coverage:
        return Html("")
    share = number_at(coverage, "share")
    hottest = [
        (row[0], float(row[1]))
        for row in list_at(coverage, "hottest")[:32]
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], int | float)
    ]
    most = max((value for _, value in hottest), default=0.0)
    rows = [(name[:200], number(value), bar(value / most if most > 0 else 0, "plain")) for name, value in hottest]
    own = ", ".join(name for name in list_at(coverage, "own")[:64] if isinstance(name, str))
    told = facts(
        (
            ("work of its own kernels", f"{share:.1%}" if share is not None else "not measured"),
            ("measured by", text_at(coverage, "method", longest=400)),
            ("samples", number(whole_at(coverage, "samples")) if whole_at(coverage, "samples") else ""),
            ("own kernels", own),
        )
    )
    unit = "µs a call" if most > 1 else "share of the time"
    return section("Own kernels", told, table(("where the time goes", unit, ""), rows) if rows else "")


def profile_html(profile: dict[str, Any]) -> Html:
    """What a verdict that asked for a profile says of the device's use: the bottleneck, the roofline plot, and each kernel's launch."""
    if not profile:
        return Html("")
    rates = {name: number_at(profile, name) for name in ("gbs", "peak_gbs", "gflops", "peak_gflops")}
    told = facts(
        (
            ("memory", _of(rates["gbs"], rates["peak_gbs"], "GB/s")),
            ("arithmetic", _of(rates["gflops"], rates["peak_gflops"], "GFLOP/s")),
            ("cores busy", _of(number_at(profile, "threads"), number_at(profile, "cores"), "")),
            ("vectors", f"{whole_at(profile, 'vector_bits')} bits" if whole_at(profile, "vector_bits") else ""),
            ("gaps between launches", f"{gaps:.4g} µs a call" if (gaps := number_at(profile, "gaps_us")) is not None else ""),
        )
    )
    kernels = [row for row in list_at(profile, "kernels")[:32] if isinstance(row, dict)]
    rows = [_launch(row) for row in kernels]
    heads = ("kernel", "µs", "grid", "block", "registers", "shared memory", "spilled", "occupancy")
    return section(
        "Profile",
        words(text_at(profile, "bottleneck", longest=600)),
        told,
        roofline_plot(rates),
        table(heads, rows) if rows else "",
    )


def roofline_plot(rates: dict[str, float | None]) -> Html:
    """Operations a second over operations a byte, under what memory and arithmetic allow; empty where one of the four is not known."""
    memory, top, reached, rate = rates["peak_gbs"], rates["peak_gflops"], rates["gflops"], rates["gbs"]
    if not (memory and top and reached and rate):
        return Html("")
    here, ridge = reached / rate, top / memory
    ends = (min(here, ridge) / 4, ridge, max(here, ridge) * 4)
    roof = PlotSeries("roofline", [(x, min(top, memory * x)) for x in ends])
    kernel = PlotSeries("this kernel", [(here, reached)], "dots", labels=[f"{reached:.4g} GFLOP/s at {here:.3g} FLOP/byte"])
    plot = Plot("Roofline", [roof, kernel], x="FLOP/byte", y="GFLOP/s", log_y=True, log_x=True, whole_x=False)
    return charts(plot)


def _of(value: float | None, most: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.4g} of {most:.4g} {unit}".strip() if most else f"{value:.4g} {unit}".strip()


def _launch(row: dict[str, Any]) -> tuple[str, ...]:
    def shape(name: str) -> str:
        return "×".join(str(each) for each in list_at(row, name)[:3] if isinstance(each, int))

    share, limit = number_at(row, "occupancy"), text_at(row, "limited_by", longest=40)
    filled = f"{share:.0%}" + (f", by {limit}" if limit else "") if share is not None else ""
    bytes_of = [f"{whole_at(row, name):,} B" if whole_at(row, name) else "" for name in ("shared_bytes", "local_bytes")]
    microseconds = number_at(row, "us")
    time = f"{microseconds:.4g}" if microseconds is not None else ""
    return (
        text_at(row, "name", longest=80),
        time,
        shape("grid"),
        shape("block"),
        str(whole_at(row, "registers") or ""),
        *bytes_of,
        filled,
    )


def stages_html(stages: dict[str, float]) -> Html:
    most = max(stages.values(), default=0.0)
    rows = [(name, f"{value:.3g} s", bar(value / most if most > 0 else 0, "plain")) for name, value in stages.items()]
    return folded("How long judging took", table(("stage", "", ""), rows)) if rows else Html("")


def bar(share: float, kind: str) -> Html:
    width = 100 * min(max(share, 0.004), 1.0)
    frame = 'class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"'
    return Html(f'<svg {frame}><rect class="{kind}" width="{width:.1f}" height="8"/></svg>')


def diff_html(before: str, after: str, old: str, new: str) -> Html:
    """What changed between two kernels, line by line."""
    if max(len(before), len(after)) > MOST_DIFF or max(before.count("\n"), after.count("\n")) > MOST_DIFF_LINES:
        return el("p", "The two are too long to be compared here.", cls="note")
    if before == after:
        return el("p", f"The same text as {old}.", cls="note")
    lines: list[Html] = []
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="", n=3):
        kind = {"+": "add", "-": "cut", "@": "at"}.get(line[:1], "")
        lines += [el("span", line, cls=kind) if kind else joined(line), Html("\n")]
    return el("pre", *lines, cls="diff", tabindex="0")


def kernel_html(source: str, before: str | None, name: str, parent: str) -> Html:
    if not source:
        return Html("")
    parts = (
        [folded(f"Changes from {parent}", diff_html(before, source, parent, name), id_="diff", open_=True)]
        if before is not None
        else []
    )
    return joined(
        *parts, folded(f"Kernel ({len(source.splitlines()):,} lines)", code(source), id_="kernel", open_=before is None)
    )
