"""Retrieval: the best cards for a query that pass a filter.

The index is asked for more than is wanted and the filter looks at what came; only when too few pass is it asked again for
more. That is exact, and keeps the common case to one short walk over the posting lists. Typed conditions are checked here, by code: a model
follows a card for other sizes all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bottega.core.errors import UsageError
from bottega.core.skill import DEVICES, AppliesTo, Skill, SkillState
from bottega.core.workload import Workload
from bottega.languages import kernel_languages
from bottega.skills.conditions import holds
from bottega.skills.index import CONDITIONAL, Found, SearchIndex, bits_of, scope_number
from bottega.skills.query import Query
from bottega.skills.store import SkillStore
from bottega.skills.validation import SCOPE

OVERSAMPLE = 8


@dataclass(frozen=True)
class Filter:
    states: tuple[SkillState, ...] = (SkillState.ADMITTED,)
    language: str | None = None
    device: str | None = None
    scope: str | None = None
    """A family's cards and the general ones with `family/NAME`; only general ones with `general`."""
    workload: Callable[[], Workload] | None = field(default=None, compare=False)
    """Of the task that cards are sought for; called when a card with typed conditions is met. None: there is no task, and they are not checked."""

    def __post_init__(self) -> None:
        known = [language.name for language in kernel_languages()]
        if self.language is not None and self.language not in known:
            raise UsageError(f"unknown language {self.language!r}; use {', '.join(known)}")
        if self.device is not None and self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}; use {' or '.join(DEVICES)}")
        if self.scope is not None and not re.fullmatch(SCOPE, self.scope):
            raise UsageError(f"unknown scope {self.scope!r}; use general, or family/NAME")

    def passing(self, found: Iterable[Found]) -> list[Found]:
        states = sum(bits_of(state) for state in set(self.states))
        needed = bits_of(language=self.language, device=self.device)
        scopes = {scope_number("general"), scope_number(self.scope)} if self.scope else None
        return [
            part
            for part in found
            if part.bits & states and part.bits & needed == needed and (scopes is None or part.scope in scopes)
        ]


EVERY_STATE = tuple(SkillState)


@dataclass(frozen=True)
class Hit:
    skill: Skill
    score: float


def best(store: SkillStore, index: SearchIndex, query: Query, k: int, only: Filter, at: int | None) -> list[Hit]:
    if k <= 0 or not query.terms:
        return []
    query = Query(query.terms, conditional=only.workload is not None)
    limit, conditions = k * OVERSAMPLE, _Conditions(store, only.workload)
    while True:
        found = index.search(query, limit, at)
        passed = conditions.holding(only.passing(found))
        # Among equal scores the limit cuts anywhere: enough were seen when the last one wanted is better than the last one seen.
        if len(found) < limit or (len(passed) >= k and passed[k - 1].score > found[-1].score):
            break
        limit *= OVERSAMPLE
    # Equal scores in the order of their rows, so that the same library always answers alike.
    passed.sort(key=lambda part: (-part.score, part.row))
    return _read(store, passed[:k], at)


class _Conditions:
    """Which rows hold for the task; each is looked at once, however often the index is asked."""

    def __init__(self, store: SkillStore, workload: Callable[[], Workload] | None) -> None:
        self.store, self.workload = store, workload
        self._given: Workload | None = None
        self._holds: dict[int, bool] = {}

    def holding(self, found: list[Found]) -> list[Found]:
        new = [part.row for part in found if part.bits & CONDITIONAL and part.row not in self._holds]
        if self.workload is None:
            return found
        if new:
            self._given = self._given or self.workload()
            query = "SELECT row, json_extract(body, '$.applies_to') AS asked FROM cards WHERE row IN (SELECT value FROM json_each(?))"
            with self.store.sound():
                for row in self.store.rows(query, json.dumps(new)):
                    self._holds[row["row"]] = holds(AppliesTo.from_json(json.loads(row["asked"])), self._given)
        return [part for part in found if self._holds.get(part.row, True)]


def _read(store: SkillStore, found: list[Found], at: int | None) -> list[Hit]:
    """The cards themselves, from the truth; a row that was replaced since is left out."""
    # One argument, however many rows: SQLite takes some thousands of them at most.
    query = "SELECT row, body, valid_to FROM cards WHERE row IN (SELECT value FROM json_each(?))"
    rows = store.rows(query, json.dumps([part.row for part in found]))
    bodies = {row["row"]: row["body"] for row in rows if row["valid_to"] is None or at is not None}
    with store.sound():
        return [Hit(Skill.from_json(json.loads(bodies[part.row])), part.score) for part in found if part.row in bodies]
