"""The library: cards that can be added, revised, proved, retired and brought back, and read as they were at any version.

Every change is one transaction and one version. Nothing is deleted: a card's earlier rows stay, closed at the version that
replaced them, so that an episode can be looked at again with the library it saw.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bottega.core.closing import Closing
from bottega.core.errors import LibraryError
from bottega.core.skill import Skill, SkillState
from bottega.skills.evidence import Evidence
from bottega.skills.index import SearchIndex
from bottega.skills.query import Query
from bottega.skills.retrieve import Filter, Hit, best
from bottega.skills.similarity import signature
from bottega.skills.store import Change, SkillStore, to_do
from bottega.skills.uses import Uses
from bottega.skills.validation import admit_data, made_readable

OnConflict = Literal["error", "rename", "skip"]
BATCH = 1000
"""Cards in one transaction of a bulk addition: few enough that other writers wait briefly."""


@dataclass
class Added:
    """What a bulk addition did."""

    added: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    """From the name it came with to the name it got."""
    already_there: list[str] = field(default_factory=list)
    """The very same card is in the library already."""
    skipped: list[str] = field(default_factory=list)
    """Another card has this name, and `skip` was asked for."""
    names: list[str] = field(default_factory=list)
    """Under which name each card that was given now is, in the order given; empty for a skipped one."""


@dataclass(frozen=True)
class HistoryEntry:
    """One row of a card's history."""

    skill: Skill
    valid_from: int
    valid_to: int | None


class Library(Closing):
    def __init__(self, folder: Path | str, *, create: bool = True) -> None:
        self.store = SkillStore(Path(folder), create=create)
        self.folder = self.store.folder
        self.index = SearchIndex(self.store)
        self.evidence = Evidence(self.store)
        self.uses = Uses(self.store)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens it anew: connections cannot be shared."""
        return partial(Library, create=False), (self.folder,)

    def close(self) -> None:
        self.index.close()
        self.store.close()

    @property
    def version(self) -> int:
        """The version of the last change; 0 for an empty library."""
        row = self.store.row("SELECT max(version) FROM changes")
        return int(row[0] or 0) if row else 0

    def __len__(self) -> int:
        row = self.store.row("SELECT count(*) FROM cards WHERE valid_to IS NULL")
        return int(row[0]) if row else 0

    def get(self, name: str, at: int | None = None) -> Skill:
        condition, arguments = _as_of(self._known(at))
        row = self.store.row(f"SELECT body, hash FROM cards WHERE name = ? AND {condition}", name, *arguments)
        if row is None:
            near = self._near(name[:64])
            hint = f"; did you mean {near}?" if near else f"; `bottega skills list --library {self.folder}` shows all"
            past = f" at version {at}" if at is not None else ""
            raise LibraryError(f"{self.folder}: no card is named {name[:100]!r}{past}{hint}")
        skill = self._skill(row)
        if content_hash(skill) != row["hash"]:
            raise LibraryError(f"{self.store.path}: the card {name!r} is not what was written. {to_do(self.folder)}")
        return skill

    def cards(self, state: SkillState | None = None, at: int | None = None) -> list[Skill]:
        """Cards by name, as of a version."""
        condition, arguments = _as_of(self._known(at))
        if state is not None:
            condition, arguments = f"{condition} AND state = ?", [*arguments, state.value]
        return [
            self._skill(row) for row in self.store.rows(f"SELECT body FROM cards WHERE {condition} ORDER BY name", *arguments)
        ]

    def counts(self) -> dict[SkillState, int]:
        """How many cards are in each state."""
        rows = self.store.rows("SELECT state, count(*) AS number FROM cards WHERE valid_to IS NULL GROUP BY state")
        found = {row["state"]: int(row["number"]) for row in rows}
        return {state: found.get(state.value, 0) for state in SkillState}

    def history(self, name: str) -> list[HistoryEntry]:
        self.get(name)
        rows = self.store.rows("SELECT body, valid_from, valid_to FROM cards WHERE name = ? ORDER BY valid_from", name)
        return [HistoryEntry(self._skill(row), row["valid_from"], row["valid_to"]) for row in rows]

    def add(self, skill: Skill, note: str = "") -> Skill:
        """A new card, *proposed*, or in the state it brings. A name that is taken is an error."""
        skill = admit_data(skill.to_json(), skill.name)
        with self.store.change("add", note or skill.name) as change:
            self._refuse_taken(change.connection, skill.name)
            _insert(change, skill)
        return skill

    def add_many(self, skills: Iterable[Skill], on_conflict: OnConflict = "rename", note: str = "") -> Added:
        """Cards by the thousand, in transactions of `BATCH`: what was committed stays if a later one fails.

        Where a taken name is an error, it is one transaction, so that an error leaves nothing behind.
        """
        report, batch = Added(), []
        for skill in skills:
            batch.append(admit_data(skill.to_json(), skill.name))
            if len(batch) == BATCH and on_conflict != "error":
                self._add_batch(batch, on_conflict, note, report)
                batch = []
        self._add_batch(batch, on_conflict, note, report)
        return report

    def _add_batch(self, batch: Sequence[Skill], on_conflict: OnConflict, note: str, report: Added) -> None:
        if not batch:
            return
        done = Added()
        with self.store.change("add", note or f"{len(batch)} cards") as change:
            for skill in batch:
                row = change.execute("SELECT hash FROM cards WHERE name = ? AND valid_to IS NULL", (skill.name,)).fetchone()
                if row is not None and row["hash"] == content_hash(skill):
                    done.already_there.append(skill.name)
                    done.names.append(skill.name)
                elif row is not None and on_conflict == "skip":
                    done.skipped.append(skill.name)
                    done.names.append("")
                else:
                    named = skill if row is None else self._renamed(change.connection, skill, on_conflict)
                    done.names.append(named.name)
                    if named.name != skill.name:
                        if _same_content(change.connection, named):
                            done.already_there.append(skill.name)
                            continue
                        done.renamed[skill.name] = named.name
                    _insert(change, named)
                    done.added.append(named.name)
        report.added += done.added
        report.renamed |= done.renamed
        report.already_there += done.already_there
        report.skipped += done.skipped
        report.names += done.names

    def _renamed(self, connection: sqlite3.Connection, skill: Skill, on_conflict: OnConflict) -> Skill:
        if on_conflict == "error":
            self._refuse_taken(connection, skill.name)
        number = 2
        while True:
            name = f"{skill.name[:58].rstrip('_')}_{number}"
            row = connection.execute("SELECT hash FROM cards WHERE name = ? AND valid_to IS NULL", (name,)).fetchone()
            named = replace(skill, name=name)
            if row is None or row["hash"] == content_hash(named):
                return named
            number += 1

    def revise(self, name: str, skill: Skill, note: str = "") -> Skill:
        """A new text for a card. It is *proposed* again: what was proved was the old text. The same text changes nothing."""
        new = admit_data(replace(skill, name=name, state=SkillState.PROPOSED, reason="revised").to_json(), name)
        old = self.get(name)
        if content_hash(old) == content_hash(new):
            return old
        with self.store.change("revise", note or name) as change:
            old = self._current(change.connection, name)
            if old.state is SkillState.RETIRED:
                raise LibraryError(
                    f"{name} is retired ({old.reason}); nothing was changed. `bottega skills restore {name}` first"
                )
            new = replace(new, version=old.version + 1)
            self._replace(change, new)
        return new

    def move(self, name: str, state: SkillState, reason: str) -> Skill:
        """Admit, retire or bring back a card, and say why."""
        with self.store.change(state.value, f"{name}: {reason}") as change:
            return self.move_within(change, name, state, reason)

    def move_within(self, change: Change, name: str, state: SkillState, reason: str) -> Skill:
        """The same inside a larger change."""
        moved = replace(self._current(change.connection, name), state=state, reason=made_readable(reason)[:400])
        self._replace(change, moved)
        return moved

    def search(self, query: Query, k: int = 20, only: Filter | None = None, at: int | None = None) -> list[Hit]:
        """The k best cards for a query, best first. Only admitted ones unless the filter says otherwise."""
        return best(self.store, self.index, query, k, only or Filter(), self._known(at))

    def __contains__(self, name: str) -> bool:
        return self.store.row("SELECT 1 FROM cards WHERE name = ? AND valid_to IS NULL", name) is not None

    def _replace(self, change: Change, skill: Skill) -> None:
        change.execute("UPDATE cards SET valid_to = ? WHERE name = ? AND valid_to IS NULL", (change.version, skill.name))
        _insert(change, skill)

    def _current(self, connection: sqlite3.Connection, name: str) -> Skill:
        row = connection.execute("SELECT body FROM cards WHERE name = ? AND valid_to IS NULL", (name,)).fetchone()
        return self.get(name) if row is None else self._skill(row)

    def _skill(self, row: sqlite3.Row) -> Skill:
        with self.store.sound():
            return Skill.from_json(json.loads(row["body"]))

    def _refuse_taken(self, connection: sqlite3.Connection, name: str) -> None:
        row = connection.execute("SELECT state FROM cards WHERE name = ? AND valid_to IS NULL", (name,)).fetchone()
        if row is not None:
            raise LibraryError(
                f"{self.folder}: a card named {name!r} is there already ({row['state']}); nothing was changed. "
                "Give the new one another name, or revise the old one with `bottega skills add --revise`"
            )

    def _known(self, at: int | None) -> int | None:
        if at is not None and not 0 <= at <= self.version:
            raise LibraryError(f"{self.folder}: no version {at}; the library is at version {self.version}")
        return at

    def _near(self, name: str) -> str:
        import difflib

        names = [row["name"] for row in self.store.rows("SELECT name FROM cards WHERE valid_to IS NULL LIMIT 20000")]
        return " or ".join(difflib.get_close_matches(name, names, 2))


def content_hash(skill: Skill) -> str:
    """The same for cards that say the same, whatever their state, version and origin."""
    return hashlib.sha256(json.dumps(skill.content(), sort_keys=True).encode()).hexdigest()[:24]


def _same_content(connection: sqlite3.Connection, skill: Skill) -> bool:
    query = "SELECT 1 FROM cards WHERE name = ? AND hash = ? AND valid_to IS NULL"
    return connection.execute(query, (skill.name, content_hash(skill))).fetchone() is not None


def _insert(change: Change, skill: Skill) -> None:
    change.execute(
        "INSERT INTO cards (name, state, valid_from, hash, signature, body) VALUES (?, ?, ?, ?, ?, ?)",
        (
            skill.name,
            skill.state.value,
            change.version,
            content_hash(skill),
            signature(skill),
            json.dumps(skill.to_json(), ensure_ascii=False),
        ),
    )


def _as_of(at: int | None) -> tuple[str, list[object]]:
    if at is None:
        return "valid_to IS NULL", []
    return "valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)", [at, at]
