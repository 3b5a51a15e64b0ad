"""Which view shows what of which kind of run, and the frame around it."""

from __future__ import annotations

from collections.abc import Callable

from bottega.service.dashboard.attempt_view import attempt_view, task_view
from bottega.service.dashboard.bench_view import bench_overview
from bottega.service.dashboard.events_view import event_view, events_view, log_overview
from bottega.service.dashboard.html import Html, el, joined
from bottega.service.dashboard.library_view import card_view, libraries_in, library_view
from bottega.service.dashboard.lineage_view import lineage_overview, lineage_step
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links
from bottega.service.dashboard.search_view import node_view, search_overview
from bottega.service.dashboard.tokens_view import turn_view
from bottega.service.dashboard.training_view import episode_view, step_view, training_overview

View = Callable[[OpenRun, Asked, Links], Html]


def _data(run: OpenRun, asked: Asked, links: Links) -> Html:
    from bottega.service.dashboard.data_view import (
        data_overview,
    )  # its store needs the compiler's packages, which take a second to import

    return data_overview(run, asked, links)


OVERVIEWS: dict[str, View] = {
    "optimize": search_overview,
    "bench": bench_overview,
    "rl": training_overview,
    "sft": training_overview,
    "data": _data,
    "library": library_view,
    "lineage": lineage_overview,
}
"""By kind; a run of any other kind is shown as its events."""
VIEWS: dict[str, View] = {
    "node": node_view,
    "events": events_view,
    "event": event_view,
    "task": task_view,
    "attempt": attempt_view,
    "step": step_view,
    "episode": episode_view,
    "turn": turn_view,
    "library": library_view,
    "card": card_view,
    "lineage_step": lineage_step,
}
OF_BENCH = frozenset({"task", "attempt"})
OF_LINEAGE = frozenset({"lineage_step"})


def run_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    """The view that is asked for, or the overview where none is, or none that this run has."""
    view = asked.text("view")
    known = (
        view in VIEWS and not (view in OF_BENCH and run.bench is None) and not (view in OF_LINEAGE and run.kind != "lineage")
    )
    shown = VIEWS[view] if known else OVERVIEWS.get(run.kind, log_overview)
    return joined(tabs(run, asked, links), shown(run, asked, links))


def tabs(run: OpenRun, asked: Asked, links: Links) -> Html:
    now = asked.text("view")
    found: list[tuple[str, str, dict[str, str]]] = [("overview", "", {})]
    if run.bench is None and run.found.kind not in ("data", "library"):
        found.append(("events", "events", {}))
    if run.found.kind != "library":
        found += [(name, "library", {"of": name}) for name in libraries_in(run)]
    found.append(("compare", "compare", {}))
    parts = []
    for word, view, query in found:
        here = now == view and (view != "library" or asked.text("of") == query.get("of", ""))
        target = links.compare(run.id) if view == "compare" else links.run(run.id, view=view, **query)
        parts.append(el("a", word, href=target, aria_current="page" if here else None))
    return el("nav", *parts, cls="tabs", aria_label="Views of this run")


def crumbs(run: OpenRun, asked: Asked, links: Links) -> list[tuple[str, str]]:
    """Where a view is, for the way back up."""
    found = [("runs", links.runs()), (run.id, links.run(run.id))]
    view, step = asked.text("view"), asked.text("step", 12)
    if view in ("step", "episode", "turn") and step:
        found.append((f"step {step}", links.run(run.id, view="step", step=step)))
    if view == "card":
        found.append((asked.text("of") or "library", links.run(run.id, view="library", of=asked.text("of"))))
    last = {
        "node": "node",
        "task": "task",
        "attempt": "line",
        "event": "line",
        "episode": "episode",
        "turn": "line",
        "card": "name",
        "lineage_step": "line",
    }.get(view)
    if last:
        found.append((f"{view.removeprefix('lineage_')} {asked.text(last, 80)}", ""))
    elif view in ("events", "library"):
        found.append((asked.text("log") or asked.text("of") or view, ""))
    return found
