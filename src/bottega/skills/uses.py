"""Usage statistics of cards: how often each was retrieved and selected, and the uplift of episodes with it.

An episode tries several selections on one task, the empty one among them; so every episode compares a card with its absence
under the same task, device and weights. Each is counted once, however often it is reported.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bottega.skills.store import SkillStore


@dataclass(frozen=True)
class Scheme:
    """One selection that an episode tried, and what its attempts were worth: logarithms of the speedup, 0 for none."""

    selected: tuple[str, ...]
    worths: tuple[float, ...]


@dataclass(frozen=True)
class Use:
    episode: str
    """Unique: a run and a number in it."""
    task_id: str
    family: str
    device: str
    library_version: int
    retrieved: tuple[str, ...]
    schemes: tuple[Scheme, ...]


@dataclass(frozen=True)
class UseCounts:
    skill: str
    family: str
    device: str
    retrieved: int
    selected: int
    compared: int
    """Episodes that tried it and its absence."""
    uplift: float | None
    """Mean of what an attempt gained with it over without, as a logarithm; nothing where nothing was compared."""
    error: float | None
    """The standard error of that mean."""


class Uses:
    def __init__(self, store: SkillStore) -> None:
        self.store = store

    def record(self, use: Use) -> bool:
        """Count an episode; false when it was counted before."""
        if self.store.row("SELECT 1 FROM uses WHERE episode = ?", use.episode):
            return False
        with self.store.change("use", use.episode) as change:
            fresh = change.execute(
                "INSERT OR IGNORE INTO uses (version, episode, body) VALUES (?, ?, ?)",
                (change.version, use.episode, json.dumps(asdict(use))),
            ).rowcount
            if fresh:
                _count(change.connection, use)
        return bool(fresh)

    def tallies(self, skill: str | None = None) -> list[UseCounts]:
        """For each card, family and device."""
        condition = "WHERE skill = ?" if skill is not None else ""
        rows = self.store.rows(
            f"SELECT * FROM tallies {condition} ORDER BY skill, family, device", *([] if skill is None else [skill])
        )
        with self.store.sound():
            return [_tally(row) for row in rows]

    def totals(self, names: Sequence[str] | None = None) -> list[UseCounts]:
        """For each card, over families and devices."""
        rows = self.store.rows(
            "SELECT skill, '' AS family, '' AS device, sum(retrieved) AS retrieved, sum(selected) AS selected, "
            "sum(compared) AS compared, sum(uplift_sum) AS uplift_sum, sum(uplift_squares) AS uplift_squares "
            "FROM tallies GROUP BY skill ORDER BY skill"
        )
        with self.store.sound():
            return [_tally(row) for row in rows if names is None or row["skill"] in names]

    def uplifts(self, since: Mapping[str, int]) -> dict[str, list[float]]:
        """For each of these cards, what single episodes gained with it, from the library version on that is given for it."""
        found: dict[str, list[float]] = {name: [] for name in since}
        first = min(since.values(), default=0)
        rows = self.store.rows("SELECT body FROM uses WHERE version >= ? ORDER BY row", first) if since else []
        with self.store.sound():
            for use in (json.loads(row["body"]) for row in rows):
                schemes = [Scheme(tuple(scheme["selected"]), tuple(scheme["worths"])) for scheme in use["schemes"]]
                for name in {name for scheme in schemes for name in scheme.selected} & since.keys():
                    uplift = uplift_of(name, schemes) if use["library_version"] >= since[name] else None
                    if uplift is not None:
                        found[name].append(uplift)
        return found


def uplift_of(skill: str, schemes: Sequence[Scheme]) -> float | None:
    """Mean worth of the attempts that had it, less that of the attempts that had not; nothing unless there are both."""
    having = [worth for scheme in schemes if skill in scheme.selected for worth in scheme.worths]
    lacking = [worth for scheme in schemes if skill not in scheme.selected for worth in scheme.worths]
    if not having or not lacking:
        return None
    return sum(having) / len(having) - sum(lacking) / len(lacking)


def _count(connection: sqlite3.Connection, use: Use) -> None:
    selected = {name for scheme in use.schemes for name in scheme.selected}
    for name in sorted({*use.retrieved, *selected}):
        uplift = uplift_of(name, use.schemes)
        compared = uplift is not None
        value = uplift or 0.0
        connection.execute(
            "INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (skill, family, device) DO UPDATE SET "
            "retrieved = retrieved + excluded.retrieved, selected = selected + excluded.selected, "
            "compared = compared + excluded.compared, uplift_sum = uplift_sum + excluded.uplift_sum, "
            "uplift_squares = uplift_squares + excluded.uplift_squares",
            (
                name,
                use.family,
                use.device,
                int(name in use.retrieved),
                sum(name in scheme.selected for scheme in use.schemes),
                int(compared),
                value,
                value * value,
            ),
        )


def _tally(row: sqlite3.Row) -> UseCounts:
    count = row["compared"]
    mean = row["uplift_sum"] / count if count else None
    error = None
    if mean is not None and count > 1:
        error = math.sqrt(max(0.0, row["uplift_squares"] / count - mean * mean) / (count - 1))
    return UseCounts(row["skill"], row["family"], row["device"], row["retrieved"], row["selected"], count, mean, error)
