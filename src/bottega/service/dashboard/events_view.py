"""Any log as what it is: its events in order. What the dashboard has no view for is shown like this."""

from __future__ import annotations

from typing import Any

from bottega.core.foreign_text import one_line
from bottega.service.dashboard.event_rows import EventRow
from bottega.service.dashboard.html import (
    Html,
    badge,
    choice,
    code,
    el,
    facts,
    folded,
    joined,
    link,
    moment,
    number,
    section,
    speed,
    table,
)
from bottega.service.dashboard.line_index import IndexedLine
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, raw, tree, warned
from bottega.service.dashboard.reading import object_at
from bottega.service.dashboard.search_view import exchange
from bottega.service.dashboard.verdict_view import verdict_html

LONGEST_RAW = 2 << 20


def log_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    """Of a run whose kind is not known."""
    summary = run.summary()
    command = run.first("run_started").facts.get("command", "")
    told = facts(
        (
            ("state", badge(summary.state)),
            ("begun", moment(summary.begun)),
            ("last event", moment(summary.changed)),
            ("command", el("code", command) if command else ""),
            ("best", summary.best),
        )
    )
    return joined(told, events_view(run, asked, links))


def events_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    log = asked.text("log")
    index = run.log(log)
    if index is None:
        return el("p", "No such log is in this run.")
    kinds = sorted({line.row.type for line in index.lines})
    kind, wanted = asked.text("type"), asked.text("q").lower()
    found = [
        line
        for line in reversed(index.lines)
        if (not kind or line.row.type == kind) and (not wanted or wanted in _searched(line))
    ]

    def target(**query: Any) -> str:
        return links.run(run.id, **query)

    part, others = pages(len(found), asked, target)
    form = el(
        "form",
        el("input", type="hidden", name="view", value="events"),
        el("input", type="hidden", name="log", value=log) if log else "",
        choice("type", "every type", kinds, kind),
        el("input", type="search", name="q", value=asked.text("q"), placeholder="filter", aria_label="Filter"),
        el("button", "Filter"),
        cls="filter",
    )
    rows, targets = [], []
    for line in found[part]:
        where = links.run(run.id, view="event", line=line.number, log=log)
        rows.append(
            (
                link(where, line.number),
                moment(line.row.at),
                line.row.type,
                one_line(line.row.key, 80),
                el("span", told_of(line.row), cls="said"),
            )
        )
        targets.append(where)
    shown = table(("line", "when", "type", "key", ""), rows, "events", targets)
    return joined(
        warned(index.warnings()), section(f"Events, newest first ({len(found):,})", form, others, shown, others, id_="events")
    )


def _searched(line: IndexedLine[EventRow]) -> str:
    return f"{line.row.key} {line.row.node} {told_of(line.row)}".lower()


def told_of(row: EventRow) -> str:
    """An event in a line."""
    if row.verdict is not None:
        return f"{row.node} {row.verdict.outcome} {speed(row.verdict.best())} {row.facts.get('diagnosis', '')}".strip()
    if row.values:
        told = ", ".join(f"{name} {number(value)}" for name, value in list(row.values.items())[:6])
        return f"step {row.facts.get('step')}: {told} {row.facts.get('note', '')}".strip()
    named = [row.node] if row.node else []
    return one_line(
        " ".join([*named, *(f"{name} {value}" for name, value in row.facts.items() if value not in ("", 0, 0.0, None))]), 240
    )


def event_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    index = run.log(asked.text("log"))
    line = index.numbered(asked.whole("line")) if index is not None else None
    if index is None or line is None:
        return el("p", "No such line is in the log.")
    body = index.body(line)
    turn, verdict = object_at(body, "turn"), object_at(body, "verdict")
    parts = [
        facts(
            (
                ("type", line.row.type),
                ("key", line.row.key),
                ("node", line.row.node),
                ("when", moment(line.row.at)),
                ("bytes", f"{line.length:,}"),
            )
        ),
        verdict_html(verdict) if verdict else "",
        folded("Kernel", code(str(turn["source"])), open_=True)
        if isinstance(turn.get("source"), str) and turn["source"]
        else "",
        exchange(turn),
        section(
            "Fields",
            tree({name: value for name, value in body.items() if name not in ("turn", "verdict", "type", "key", "at")}),
        ),
        raw(body) if line.length <= LONGEST_RAW else el("p", "The line is too long to be shown whole.", cls="note"),
    ]
    return joined(*parts)
