"""A verdict as a reader wants it: the outcome with its reasons first, then speed, time against the roofline, profile and error."""

from __future__ import annotations

import difflib
from typing import Any

from bottega.service.dashboard.event_rows import numbers_of, verdict_row
from bottega.service.dashboard.html import Html, badge, code, el, facts, folded, joined, number, section, speed, table, words
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
        profile_html(object_at(verdict, "coverage")),
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


def profile_html(coverage: dict[str, Any]) -> Html:
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
    return section("Profile", told, table(("where the time goes", unit, ""), rows) if rows else "")


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
