"""How skills are shown: tables and pages for people, plain JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from bottega.app.terminal import Terminal
from bottega.core.skill import Skill, SkillState
from bottega.core.trial import Trial
from bottega.skills.agent_skills import markdown
from bottega.skills.library import HistoryEntry
from bottega.skills.retrieve import Hit
from bottega.skills.uses import UseCounts

COLOURS = {SkillState.ADMITTED: "green", SkillState.PROPOSED: "yellow", SkillState.RETIRED: "dim"}


def print_cards(skills: Sequence[Skill], title: str) -> None:
    table = names_whole("name", "state", "languages", "scope", "intent", title=title)
    for skill in skills:
        table.add_row(skill.name, coloured(skill.state), " ".join(skill.languages), skill.scope, skill.intent)
    console_for(table).print(table)


def print_hits(hits: Sequence[Hit]) -> None:
    table = names_whole("score", "name", "state", "languages", "intent")
    for hit in hits:
        languages, intent = " ".join(hit.skill.languages), hit.skill.intent
        table.add_row(f"{hit.score:.2f}", hit.skill.name, coloured(hit.skill.state), languages, intent)
    console_for(table).print(table)


def names_whole(*headers: str, title: str | None = None) -> Table:
    """A table that folds what does not fit. A name with its end cut off is no name, and texts have brackets that are no markup."""
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def console_for(table: Table) -> Console:
    """As wide as the terminal; as wide as the table where a program reads, which wants one line for each card."""
    console = Terminal()
    if not console.is_terminal:
        console.width = max(console.width, Terminal(width=10_000).measure(table).maximum)
    return console


def print_card(skill: Skill, trials: Sequence[Trial], tallies: Sequence[UseCounts], history: Sequence[HistoryEntry]) -> None:
    console = Terminal()
    console.print(coloured(skill.state) + f", version {skill.version}: {skill.reason or 'no reason given'}")
    console.print(f"from {skill.provenance.origin} {skill.provenance.source}")
    console.print(f"{skill.scope} · {' '.join(skill.tags)} · {' '.join(skill.languages)} · {' '.join(skill.devices)}")
    console.print(Markdown(markdown(skill, trials), hyperlinks=False))
    if tallies:
        print_tallies(tallies)
    if len(history) > 1:
        for entry in history:
            state = f"{entry.skill.state} {entry.skill.reason}"
            console.print(f"library version {entry.valid_from}: text {entry.skill.version}, {state}")


def print_tallies(tallies: Sequence[UseCounts]) -> None:
    table = names_whole("name", "family", "device", "retrieved", "selected", "compared", "uplift")
    for tally in tallies:
        counts = (str(tally.retrieved), str(tally.selected), str(tally.compared))
        table.add_row(tally.skill, tally.family, tally.device, *counts, uplift(tally))
    console_for(table).print(table)


def uplift(tally: UseCounts) -> str:
    if tally.uplift is None:
        return ""
    spread = f" ± {tally.error:.1%}" if tally.error is not None else ""
    return f"{math.expm1(tally.uplift):+.1%}{spread}"


def tally_json(tally: UseCounts) -> dict[str, Any]:
    return {**tally.__dict__, "uplift_factor": None if tally.uplift is None else math.exp(tally.uplift)}


def coloured(state: SkillState) -> Text:
    return Text(state, COLOURS[state])
