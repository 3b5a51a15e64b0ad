"""A skill library: its cards with what was measured with them, how they fared in use, and where each came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.core.errors import BottegaError
from bottega.core.foreign_text import one_line
from bottega.core.skill import Skill, SkillState
from bottega.core.trial import Trial
from bottega.service.dashboard.database_copy import copied
from bottega.service.dashboard.html import (
    Html,
    badge,
    choice,
    code,
    el,
    facts,
    joined,
    link,
    number,
    section,
    speed,
    table,
    words,
)
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, warned
from bottega.service.dashboard.reading import stamp
from bottega.skills.library import Library
from bottega.skills.relations import relations_text
from bottega.skills.uses import UseCounts

FOLDERS = ("library", "proofs")
"""Where a run may hold one: its cards, and those that its gate tried."""


def libraries_in(run: OpenRun) -> list[str]:
    """Names of the libraries in a run; the empty name is the folder itself."""
    if run.found.kind == "library":
        return [""]
    return [name for name in FOLDERS if stamp(run.folder / name / "library.db") is not None]


def library_file(run: OpenRun, name: str) -> Path:
    return (run.folder / name if name in FOLDERS else run.folder) / "library.db"


def library_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    name = asked.text("of")
    try:
        with copied(library_file(run, name)) as folder, Library(folder, create=False) as library:
            cards, totals = library.cards(), {each.skill: each for each in library.uses.totals()}
            trials = _trial_counts(library)
            version = library.version
    except BottegaError as error:
        return warned([str(error)])
    state, text = asked.text("state"), asked.text("q").lower()
    kept = [
        card
        for card in cards
        if (not state or card.state.value == state)
        and (not text or text in f"{card.name} {card.intent} {' '.join(card.tags)}".lower())
    ]
    part, others = pages(len(kept), asked, lambda **query: links.run(run.id, **query))
    rows, targets = [], []
    for card in kept[part]:
        where = links.run(run.id, view="card", of=name, name=card.name)
        use, tried = totals.get(card.name), trials.get(card.name, (0, 0))
        rows.append((link(where, card.name), badge(card.state.value), el("span", card.intent, cls="said"), ", ".join(card.languages), uplift(use),
                     f"{use.selected} of {use.retrieved}" if use else "", f"{tried[1]} of {tried[0]}" if tried[0] else "",
                     one_line(card.provenance.origin, 40)))  # fmt: skip
        targets.append(where)
    form = el(
        "form",
        el("input", type="hidden", name="view", value="library"),
        el("input", type="hidden", name="of", value=name) if name else "",
        choice("state", "every state", [each.value for each in SkillState], state),
        el("input", type="search", name="q", value=asked.text("q"), placeholder="name, intent or tag", aria_label="Filter"),
        el("button", "Filter"),
        cls="filter",
    )
    columns = ("card", "state", "intent", "languages", "uplift in use", "selected of retrieved", "trials passed", "from")
    return section(
        f"Cards ({len(kept):,}), library version {version}", form, others, table(columns, rows, "cards", targets), others
    )


def _trial_counts(library: Library) -> dict[str, tuple[int, int]]:
    """By card: trials, and those of them that admitted it."""
    rows = library.store.rows(
        "SELECT skill, count(*) AS tried, sum(json_extract(body, '$.decision') = 'admitted') AS passed FROM trials GROUP BY skill"
    )
    return {row["skill"]: (int(row["tried"]), int(row["passed"] or 0)) for row in rows}


def card_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    name, of = asked.text("name"), asked.text("of")
    try:
        with copied(library_file(run, of)) as folder, Library(folder, create=False) as library:
            card, history = library.get(name), library.history(name)
            trials, merged = library.evidence.trials(name), library.evidence.merged_into(name)[1:]
            tallies = library.uses.tallies(name)
    except BottegaError as error:
        return warned([str(error)])
    came = card.provenance
    before = [link(links.run(run.id, view="card", of=of, name=each), each) for each in merged]
    told = facts(
        (
            ("state", joined(badge(card.state.value), " ", card.reason)),
            ("scope", card.scope),
            ("tags", ", ".join(card.tags)),
            ("for", f"{', '.join(card.languages)} on {', '.join(card.devices)}"),
            ("from", " ".join(filter(None, (came.origin, came.source)))),
            ("drawn from task", came.task),
            ("its origin claims", f"{came.claimed_speedup:.2f}×" if came.claimed_speedup else ""),
            ("merged into it", joined(*(joined(each, " ") for each in before)) if before else ""),
        )
    )
    texts = [
        ("Where it applies", card.anchor),
        ("How", card.technique),
        ("What it changes", card.effect),
        ("What goes wrong", "\n".join(card.failures)),
    ]
    sound = [(kind.replace("_", " "), text) for kind, text in card.stated]
    sound += [("checked by code", " ".join(card.applies_to.told.values()))] if card.applies_to else []
    sound += [("other optimisations", text) for text in [relations_text(card.relations)] if text]
    return joined(
        el("p", card.intent, cls="big"),
        told,
        _trials(trials),
        _tallies(tallies),
        section("When it is sound", facts(sound)),
        *(section(title, words(text)) for title, text in texts if text),
        section("Example", code(card.example)) if card.example else "",
        _history([(entry.valid_from, entry.skill) for entry in history]),
    )


def _trials(trials: Sequence[Trial]) -> Html:
    rows = [
        (
            trial.task_name,
            "sibling" if trial.sibling else "its own task",
            badge(trial.decision),
            speed((trial.gain.point, trial.gain.low, trial.gain.high)),
            f"{_mean(trial.with_skill)} with, {_mean(trial.without_skill)} without",
            len(trial.with_skill),
            trial.baseline,
            trial.device,
            el("span", trial.reason, cls="said"),
        )
        for trial in trials
    ]
    columns = ("task", "", "decision", "gain", "mean worth", "attempts", "against", "device", "why")
    return section(f"Evidence ({len(rows)})", table(columns, rows) if rows else el("p", "No trial was made."))


def _mean(values: Sequence[float]) -> str:
    known = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    return f"{sum(known) / len(known):.2f}×" if known else "nothing"


def _tallies(tallies: Sequence[UseCounts]) -> Html:
    rows = [
        (each.family, each.device, number(each.retrieved), number(each.selected), number(each.compared), uplift(each))
        for each in tallies
    ]
    return (
        section("In use", table(("family", "device", "retrieved", "selected", "compared", "uplift"), rows))
        if rows
        else Html("")
    )


def _history(entries: Sequence[tuple[int, Skill]]) -> Html:
    rows: list[Sequence[Any]] = [(version, card.version, badge(card.state.value), card.reason) for version, card in entries]
    return section("Its lineage", table(("library version", "text", "state", "why"), rows))


def uplift(use: UseCounts | None) -> str:
    if use is None or use.uplift is None:
        return ""
    spread = f" ± {use.error:.1%}" if use.error is not None else ""
    return f"{math.expm1(min(use.uplift, 50.0)):+.1%}{spread} ({use.compared})"
