"""A run of `lineage`: the expert kernel and the steps away from it as a tree, refused ones as leaves, and each step as what it changed.

The log is shown as far as it goes: steps while the walk lasts, what was refused when it has ended, round trips as they come.
"""

from __future__ import annotations

from typing import Any

from bottega.service.dashboard.event_rows import EventRow
from bottega.service.dashboard.html import Html, badge, el, facts, joined, link, moment, number, section, speed, table, words
from bottega.service.dashboard.line_index import IndexedLine
from bottega.service.dashboard.lineage_rows import short_attempt
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, warned
from bottega.service.dashboard.reading import list_at, object_at, text_at, whole_at
from bottega.service.dashboard.search_view import DEEPEST, MOST_NODES
from bottega.service.dashboard.verdict_view import kernel_html


def lineage_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    summary, started, walked = run.summary(), run.first("run_started"), run.last("walked")
    told = facts(
        (
            ("state", badge(summary.state)),
            ("steps", summary.best),
            ("task", started.facts.get("task", "")),
            ("sibling", started.facts.get("sibling", "")),
            ("steps from", started.facts.get("backbone") or "rules"),
            ("verdicts", number(float(len(run.of_type("judged"))))),
            ("begun", moment(summary.begun)),
            ("last event", moment(summary.changed)),
            ("walk", walked.facts["walked"] if walked else "goes on, or was killed; the same command goes on"),
        )
    )
    return joined(warned(run.events.warnings()), told, section("The lineage", _tree(run, links)))


def _tree(run: OpenRun, links: Links) -> Html:
    trips = {line.row.facts["number"]: line.row.facts for line in run.of_type("trip")}
    refused: dict[int, list[dict[str, Any]]] = {}
    for entry in _refused(run):
        refused.setdefault(whole_at(entry, "after"), []).append(object_at(entry, "attempt"))
    root = el("span", run.first("run_started").facts.get("kernel") or "the expert kernel", cls="d0")
    rows: list[list[Any]] = [[root, "", "", "", "", ""]]
    targets = [""]

    def leaves(depth: int) -> None:
        for attempt in refused.get(depth, ()):
            short = short_attempt(attempt)
            name = el("span", f"× {short['feature']}", cls=f"d{min(depth + 1, DEEPEST)}")
            rows.append(
                [name, short["value"], short["where"], "", badge(short["outcome"]), el("span", short["diagnosis"], cls="said")]
            )
            targets.append("")

    steps = run.of_type("step")[:MOST_NODES]
    for depth, line in enumerate(steps):
        leaves(depth)
        row, where = line.row, links.run(run.id, view="lineage_step", line=line.number)
        trip = trips.get(row.facts["number"])
        redone = "" if trip is None else "done again" if trip["verified"] else "not done again"
        name = el("span", "without ", link(where, row.facts["feature"] or "a feature"), cls=f"d{min(depth + 1, DEEPEST)}")
        rows.append([name, row.facts["value"], row.facts["where"], _worth(row), badge(row.facts["outcome"]), redone])
        targets.append(where)
    leaves(len(steps))
    return table(("kernel", "value", "where", "it was worth", "without it", ""), rows, "kernels", targets)


def lineage_step(run: OpenRun, asked: Asked, links: Links) -> Html:
    line = run.events.numbered(asked.whole("line"))
    if line is None or line.row.type != "step":
        return el("p", "No such step is in the log (yet).")
    step, row = object_at(run.events.body(line), "step"), line.row
    trip = _trip_of(run, row.facts["number"])
    told = facts(
        (
            ("optimisation", row.facts["feature"]),
            ("value", row.facts["value"]),
            ("where", row.facts["where"]),
            ("it was worth", _worth(row)),
            ("without it", badge(row.facts["outcome"])),
            ("opened", ", ".join(each for each in list_at(step, "opened") if isinstance(each, str))),
            ("from its card", trip.row.facts["text"] if trip else ""),
        )
    )
    source = kernel_html(text_at(step, "before"), text_at(step, "attempt", "source"), "with it", "the kernel without it")
    said = text_at(step, "attempt", "diagnosis")
    return joined(told, words(said) if said else "", source)


def _trip_of(run: OpenRun, step: int) -> IndexedLine[EventRow] | None:
    return next((line for line in run.of_type("trip") if line.row.facts["number"] == step), None)


def _refused(run: OpenRun) -> list[Any]:
    line = next(iter(run.of_type("walked")), None)
    return list_at(run.events.body(line), "refused")[:MOST_NODES] if line is not None else []


def _worth(row: EventRow) -> str:
    """How many times as fast the kernel is with the optimisation as without it."""
    return speed((row.values["point"], row.values.get("low"), row.values.get("high"))) if "point" in row.values else ""
