"""Upkeep: near-duplicates are merged with their evidence, cards that do not help retire, and both can be undone.

Nothing is deleted. A merged card is retired and points at the card it became part of; that card's evidence then includes its trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bottega.core.errors import UsageError
from bottega.core.skill import Skill, SkillState
from bottega.skills.library import Library
from bottega.skills.query import Query, query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.skills.similarity import ALIKE, PERMUTATIONS, likely_pairs, similarity

LEAST_COMPARED = 12
"""Episodes that must have compared a card with its absence before it can retire."""


@dataclass(frozen=True)
class DuplicatePair:
    """Two cards that say nearly the same; the first is the one to keep."""

    keep: str
    drop: str
    similarity: float


def duplicates(library: Library, least: float = ALIKE) -> list[DuplicatePair]:
    """Pairs of living cards that are alike, most alike first. Compares signatures, then reads the few pairs that match."""
    rows = library.store.rows("SELECT name, signature FROM cards WHERE valid_to IS NULL AND state != 'retired' ORDER BY row")
    if len(rows) < 2:
        return []
    with library.store.sound():
        signatures = np.frombuffer(b"".join(row["signature"] for row in rows), dtype=np.uint32)
        signatures = signatures.reshape(len(rows), 2 * PERMUTATIONS)
    found = []
    for one, other, _ in likely_pairs(signatures, least):
        first, second = (library.get(rows[place]["name"]) for place in (one, other))
        alike = similarity(first, second)
        if alike >= least and set(first.languages) & set(second.languages):
            keep, drop = sorted((first, second), key=lambda skill: _rank(library, skill))
            found.append(DuplicatePair(keep.name, drop.name, alike))
    return sorted(found, key=lambda pair: (-pair.similarity, pair.keep, pair.drop))


def duplicates_of(library: Library, skill: Skill, only: Filter | None = None) -> list[DuplicatePair]:
    """Cards that say nearly the same as a new one, of all or of those that a filter lets through. Asks the index, so it costs milliseconds at
    any size."""
    query = query_from_text(f"{skill.name} {skill.intent} {' '.join(skill.tags)} {skill.anchor}")
    hits = library.search(Query(query.terms), k=20, only=only or Filter(states=EVERY_STATE))
    found = [(hit.skill.name, similarity(hit.skill, skill)) for hit in hits if hit.skill.name != skill.name]
    return sorted(
        (DuplicatePair(name, skill.name, alike) for name, alike in found if alike >= ALIKE), key=lambda pair: -pair.similarity
    )


def merge(library: Library, keep: str, drop: Sequence[str], reason: str = "") -> Skill:
    """Make cards part of another one. They retire, and their trials count as its evidence."""
    if keep in drop or not drop:
        raise UsageError("merge one card with at least one other: bottega skills merge KEEP DROP…")
    with library.store.change("merge", f"{', '.join(drop)} into {keep}") as change:
        kept = library.get(keep)
        if kept.state is SkillState.RETIRED:
            raise UsageError(f"{keep} is retired ({kept.reason}); restore it first, or keep another card")
        for name in dict.fromkeys(drop):
            library.get(name)
            change.execute("INSERT INTO merges (version, name, into_name) VALUES (?, ?, ?)", (change.version, name, keep))
            library.move_within(change, name, SkillState.RETIRED, f"merged into {keep}" + (f": {reason}" if reason else ""))
    return kept


def retire(library: Library, name: str, reason: str) -> Skill:
    if not reason.strip():
        raise UsageError("say why a card retires: --reason")
    return library.move(name, SkillState.RETIRED, reason)


def restore(library: Library, name: str, reason: str = "brought back") -> Skill:
    """Bring a retired card back, *proposed*: what retired it must be disproved by a new trial."""
    with library.store.change("restore", f"{name}: {reason}") as change:
        if library.get(name).state is not SkillState.RETIRED:
            raise UsageError(f"{name} is not retired")
        merged = change.execute("SELECT into_name FROM merges WHERE name = ? ORDER BY version DESC LIMIT 1", (name,)).fetchone()
        if merged is not None and merged["into_name"] is not None:
            change.execute("INSERT INTO merges (version, name, into_name) VALUES (?, ?, NULL)", (change.version, name))
        return library.move_within(change, name, SkillState.PROPOSED, reason)


def unhelpful_cards(library: Library) -> list[tuple[str, str]]:
    """Admitted cards whose uplift has stayed at or below nothing since they were admitted, with the reason to give."""
    admitted = library.store.rows(
        "SELECT name, (SELECT min(valid_from) FROM cards AS a WHERE a.name = c.name AND a.state = 'admitted' AND valid_from > coalesce("
        "(SELECT max(valid_from) FROM cards AS o WHERE o.name = c.name AND o.state != 'admitted'), 0)) AS since "
        "FROM cards AS c WHERE valid_to IS NULL AND state = 'admitted'"
    )
    with library.store.sound():
        since = {row["name"]: int(row["since"]) for row in admitted}
    # The tallies are of all time: a card that was brought back and proved anew must not be held to what retired it.
    suspects = {tally.skill for tally in library.uses.totals() if tally.skill in since and tally.compared >= LEAST_COMPARED}
    found = []
    for name, uplifts in library.uses.uplifts({name: since[name] for name in sorted(suspects)}).items():
        mean = sum(uplifts) / max(1, len(uplifts))
        if len(uplifts) >= LEAST_COMPARED and mean <= 0:
            found.append((name, f"no uplift in use: {math.expm1(mean) * 100:+.1f} % over {len(uplifts)} episodes"))
    return found


def retire_unhelpful(library: Library) -> list[tuple[str, str]]:
    """Retire them all. They can be brought back."""
    found = unhelpful_cards(library)
    for name, reason in found:
        library.move(name, SkillState.RETIRED, reason)
    return found


def _rank(library: Library, skill: Skill) -> tuple[int, int, str]:
    """Which of two alike cards to keep: an admitted one, then the one with more evidence."""
    return (0 if skill.state is SkillState.ADMITTED else 1, -len(library.evidence.trials(skill.name)), skill.name)
