"""A folder of cold-start data: its card, and what its store of judged records holds."""

from __future__ import annotations

import sqlite3

from bottega.core.errors import BottegaError
from bottega.data.store import JudgedStore
from bottega.service.dashboard.database_copy import copied
from bottega.service.dashboard.html import Html, badge, el, facts, folded, joined, moment, number, section, table
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, raw, tree, warned
from bottega.service.dashboard.reading import number_at, object_at, read_object, text_at

TABLES = {"lectures": "teacher records", "slips": "mutants"}
"""Tables that have kept a first name, by what they hold."""
OUTCOMES = (
    "SELECT judge, device, json_extract(body, '$.outcome'), count(*) FROM verdicts GROUP BY 1, 2, 3 ORDER BY 1, 2, 4 DESC"
)


def data_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    card, summary = read_object(run.folder / "card.json"), run.summary()
    told = facts(
        (
            ("state", badge(summary.state)),
            ("changed", moment(summary.changed)),
            ("examples", number(number_at(card, "examples"))),
            ("tokens", number(number_at(card, "tokens", "total"))),
            ("command", el("code", command) if (command := text_at(card, "command", longest=2000)) else ""),
        )
    )
    counts = [
        section(
            f"Examples by {axis}",
            table((axis, "examples"), [(name, number(number_at(found, name))) for name in list(found)[:40]]),
        )
        for axis in ("role", "kind", "language", "level", "family", "outcome")
        if (found := object_at(card, "counts", axis))
    ]
    whole = folded("The whole data card", tree(card)) if card else el("p", "No data card is written yet.")
    return joined(told, _store(run), el("div", *counts, cls="charts"), whole, raw(card) if card else "")


def _store(run: OpenRun) -> Html:
    """Counted anew when the file has changed."""
    state = run.tag()
    known = run.cache.get("store")
    if known is None or known[0] != state:
        known = run.cache["store"] = (state, _counted(run))
    found: Html = known[1]
    return found


def _counted(run: OpenRun) -> Html:
    try:
        with copied(run.folder / "judged.db") as folder, JudgedStore(folder, create=False, write=False) as store:
            counts = store.counts()
            rows = store.connection.execute(OUTCOMES).fetchall()
            runs = store.runs()
    except (BottegaError, sqlite3.Error, ValueError) as error:
        return warned([str(error)])
    judged = [(f"judge {judge}, {device}"[:200], badge(str(outcome)), f"{count:,}") for judge, device, outcome, count in rows]
    begun = [
        (moment(number_at(each, "at") or 0.0), text_at(each, "teacher", longest=200), text_at(each, "command", longest=400))
        for each in runs
    ]
    return joined(
        section("What is stored", facts((TABLES.get(name, name), number(float(count))) for name, count in counts.items())),
        section("Verdicts", table(("where", "outcome", ""), judged)) if judged else "",
        folded("Sessions", table(("when", "teacher", "command"), begun)),
    )
