"""What there is to say about a lineage: the tree, each step with its round trip, what was refused, and what goes with what."""

from __future__ import annotations

import difflib
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.core.foreign_text import one_line
from bottega.episodes.delivery.page import Block, Code, Items, PageSection, Paragraph, ReportPage, ReportTable
from bottega.lineage.journal import FILE, read_records
from bottega.lineage.mine import read_cards, worth_a_card
from bottega.lineage.step import Step
from bottega.lineage.tree import RecordedLineage, recorded, tree_lines

NOTES = (
    "An effect is how many times as fast the kernel is with the optimisation as without it, from two verdicts against the same baseline; the "
    "widths of their intervals add as those of independent errors do.",
    "A step is verified when a fresh attempt, given the card and a plain kernel only, comes to a kernel that is right and not surely slower, on the "
    "own task and on the sibling.",
    "Cards are proposed. `bottega skills import` takes them, and `bottega skills verify` proves whether they help a writer.",
)


def lineage_page(folder: Path) -> ReportPage:
    if not (folder / FILE).exists():
        raise UsageError(f"{folder}: holds no lineage")
    found, cards = recorded(read_records(folder)), {card["name"]: card for card in read_cards(folder)}
    verified = sum(trip.verified for trip in found.trips.values())
    facts = [
        ("task", str(found.started.get("task", ""))),
        ("sibling", str(found.started.get("sibling") or "none")),
        ("steps from", str(found.started.get("backbone") or "rules")),
        ("where", str(found.started.get("fingerprint", {}).get("device", ""))),
        ("verdicts", str(found.verdicts)),
        ("ended", found.ended or "still going on, or killed; the same command goes on"),
    ]
    told = f"{len(found.steps)} optimisations taken out, {verified} of them put in again from their cards; {len(found.refused)} refused"
    told += f"; {found.surely}" if found.surely else ""
    blocks: list[Block] = [
        PageSection("The lineage", [Code("\n".join(tree_lines(found)))]),
        _steps(found),
        *_relations(cards),
        *_refused(found),
        *_pairs(found),
        *(_change(step) for step in found.steps),
    ]
    return ReportPage(f"Lineage: {found.name}", facts, headlines=[Paragraph(told)], blocks=blocks, notes=NOTES)


def _steps(found: RecordedLineage) -> ReportTable:
    rows = []
    for step in found.steps:
        trip, effect = found.trips.get(step.number), step.attempt.effect
        card = "none: faster without it" if not worth_a_card(step) else "verified" if trip and trip.verified else "not verified"
        rows.append(
            (
                str(step.number),
                step.feature,
                one_line(step.attempt.value, 60),
                step.attempt.where,
                effect.text if effect else "not timed",
                trip.text if trip else "",
                card if trip else "",
            )
        )
    columns = ("", "optimisation", "value", "where", "effect", "done again from the card", "card")
    return ReportTable("Steps, from the expert to the plain kernel", columns, rows)


def _relations(cards: dict[str, dict[str, object]]) -> list[Block]:
    rows = []
    for name, card in cards.items():
        relations = card.get("relations")
        if isinstance(relations, dict) and (relations["requires"] or relations["conflicts"]):
            told = [f"requires {', '.join(relations['requires'])}"] if relations["requires"] else []
            told += [f"conflicts with {', '.join(relations['conflicts'])}"] if relations["conflicts"] else []
            rows.append((name, "; ".join(told)))
    return [Items("What goes with what", rows)] if rows else []


def _refused(found: RecordedLineage) -> list[Block]:
    rows = [
        (attempt.feature, attempt.where, f"after step {after}", attempt.outcome, one_line(attempt.diagnosis, 200))
        for after, attempt in found.refused
    ]
    columns = ("optimisation", "where", "tried", "outcome", "why")
    return [ReportTable("Steps that the judge refused: evidence of risk", columns, rows)] if rows else []


def _pairs(found: RecordedLineage) -> list[Block]:
    rows = [
        (
            f"{pair.first} and {pair.second}",
            pair.together.effect.text if pair.together.effect else pair.together.outcome,
            pair.better_alone.effect.text if pair.better_alone.effect else "",
            pair.conflict or "none",
        )
        for pair in found.pairs
    ]
    columns = ("pair", "together, over the plain kernel", "the better one alone", "conflict")
    return [ReportTable("Pairs in the plain kernel", columns, rows)] if rows else []


def _change(step: Step) -> PageSection:
    lines = difflib.unified_diff(step.plain.splitlines(), step.before.splitlines(), "without", "with", n=2, lineterm="")
    return PageSection(f"Step {step.number}: {step.feature}", [Code("\n".join(lines), "diff")], folded=True)
