"""Retrieval: the best cards for a query that pass a filter.

The index is asked for more than is wanted and the filter looks at what came; only when too few pass is it asked again for
more. That is exact, and keeps the common case to one short walk over the posting lists.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from bottega.core.errors import UsageError
from bottega.core.skill import DEVICES, LANGUAGES, Skill, State
from bottega.skills.index import Found, SearchIndex, bits_of, scope_number
from bottega.skills.query import Query
from bottega.skills.store import Store

OVERSAMPLE = 8


@dataclass(frozen=True)
class Filter:
    states: tuple[State, ...] = (State.ADMITTED,)
    language: str | None = None
    device: str | None = None
    scope: str | None = None
    """A family's cards and the general ones with `family/NAME`; only general ones with `general`."""

    def __post_init__(self) -> None:
        if self.language is not None and self.language not in LANGUAGES:
            raise UsageError(f"unknown language {self.language!r}; use {', '.join(LANGUAGES)}")
        if self.device is not None and self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}; use {' or '.join(DEVICES)}")

    def passes(self, found: Found) -> bool:
        states = sum(bits_of(state) for state in self.states)
        needed = bits_of(language=self.language, device=self.device)
        scopes = {scope_number("general"), scope_number(self.scope)} if self.scope else set()
        return bool(found.bits & states) and found.bits & needed == needed and (not scopes or found.scope in scopes)


EVERY_STATE = tuple(State)


@dataclass(frozen=True)
class Hit:
    skill: Skill
    score: float


def best(store: Store, index: SearchIndex, query: Query, k: int, only: Filter, at: int | None) -> list[Hit]:
    if k <= 0 or not query.terms:
        return []
    limit = k * OVERSAMPLE
    while True:
        found = index.search(query, limit, at)
        passed = [part for part in found if only.passes(part)]
        if len(passed) >= k or len(found) < limit:
            break
        limit *= OVERSAMPLE
    # Equal scores in the order of their rows, so that the same library always answers alike.
    passed.sort(key=lambda part: (-part.score, part.row))
    return _read(store, passed[:k], at)


def _read(store: Store, found: list[Found], at: int | None) -> list[Hit]:
    """The cards themselves, from the truth; a row that was replaced since is left out."""
    marks = ", ".join("?" * len(found))
    rows = store.rows(f"SELECT row, body, valid_to FROM cards WHERE row IN ({marks})", *(part.row for part in found))
    bodies = {row["row"]: row["body"] for row in rows if row["valid_to"] is None or at is not None}
    return [Hit(Skill.from_json(json.loads(bodies[part.row])), part.score) for part in found if part.row in bodies]
