"""The list of all runs, newest first, with what tells most of each."""

from __future__ import annotations

import hashlib
import time
from typing import Any
from urllib.parse import urlencode

from bottega.core.foreign_text import one_line
from bottega.service.dashboard.html import Html, badge, choice, el, joined, link, moment, section, table
from bottega.service.dashboard.open_run import OpenRun, Runs, RunSummary
from bottega.service.dashboard.page import Asked, Links, pages, warned

PATIENCE_S = 0.6
"""So long a list reads logs that it has not seen yet; the others follow with the next look."""


def runs_view(runs: Runs, asked: Asked, links: Links) -> Html:
    found = summaries(runs)
    kind, state, text = asked.text("kind"), asked.text("state"), asked.text("q").lower()
    kept = [
        (run, summary)
        for run, summary in found
        if (not kind or summary.kind == kind)
        and (not state or state_kind(summary) == state)
        and (not text or text in f"{run.id} {summary.what} {summary.best}".lower())
    ]
    part, others = pages(len(kept), asked, lambda **query: _address(links, query))
    rows, targets = [], []
    for run, summary in kept[part]:
        where = links.run(run.id)
        pick = el(
            "input",
            type="checkbox",
            name="run",
            value=run.id,
            form="pick",
            aria_label=f"Pick {one_line(run.id, 80)} to compare",
        )
        best = joined(summary.best, el("span", " still reading", cls="note") if summary.unread else "")
        rows.append(
            (
                pick,
                link(where, run.id),
                summary.kind,
                badge(summary.state),
                best,
                one_line(summary.what, 60),
                moment(summary.changed),
            )
        )
        targets.append(where)
    kinds = sorted({summary.kind for _, summary in found})
    form = el(
        "form",
        choice("kind", "every kind", kinds, kind),
        choice("state", "any state", ["running", "ended", "stopped"], state),
        el("input", type="search", name="q", value=asked.text("q"), placeholder="name", aria_label="Filter"),
        el("button", "Filter"),
        cls="filter",
    )
    pick = el("form", el("button", "Compare the two picked"), id="pick", action=links.compare(), cls="filter")
    warnings = (
        ["There are more folders than are looked through; give the folders of the runs themselves."] if runs.finder.cut else []
    )
    nothing = el(
        "p",
        "No run lies in ",
        ", ".join(str(folder) for folder in runs.finder.folders),
        ". `bottega dashboard DIR` looks elsewhere.",
    )
    shown = table(("", "run", "kind", "state", "best", "of", "changed"), rows, "runs", targets)
    body = joined(form, others, shown, others, pick) if found else nothing
    return joined(warned(warnings), section(f"Runs ({len(kept):,})", body, id_="runs"))


def _address(links: Links, query: dict[str, str]) -> str:
    return f"{links.runs()}?{urlencode(query, errors='replace')}"


def state_kind(summary: RunSummary) -> str:
    return summary.state if summary.state in ("running", "stopped") else "ended"


def summaries(runs: Runs) -> list[tuple[OpenRun, RunSummary]]:
    """Newest first. What takes long to read comes bit by bit."""
    begun = time.monotonic()
    found: list[tuple[OpenRun, RunSummary]] = []
    for run in runs.all():
        if time.monotonic() - begun < PATIENCE_S:
            run.refresh()
        found.append((run, run.summary()))
    return sorted(found, key=lambda pair: -pair[1].changed)


def list_tag(runs: Runs) -> str:
    """Changes when any row of the list would."""
    rows: list[Any] = [
        (run.id, summary.state, summary.changed, summary.best, summary.unread) for run, summary in summaries(runs)
    ]
    return hashlib.sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:24]
