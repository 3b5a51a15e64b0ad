"""Usage statistics of cards: how often each was retrieved and selected, and the uplift of episodes with it.

An episode tries several selections on one task, the empty one among them; so every episode compares a card with its absence
under the same task, device and weights. Each is counted once, however often it is reported.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev

from bottega.core.errors import LibraryError
from bottega.skills.store import SkillStore

_Key = tuple[str, str, str]
"""Card, family and device."""


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
        if not all(math.isfinite(worth) for scheme in use.schemes for worth in scheme.worths):
            raise LibraryError(f"the episode {use.episode} has a worth that is no number; it is not counted")
        if self.store.row("SELECT 1 FROM uses WHERE episode = ?", use.episode):
            return False
        with self.store.change("use", use.episode) as change:
            fresh = change.execute(
                "INSERT OR IGNORE INTO uses (version, episode, body) VALUES (?, ?, ?)",
                (change.version, use.episode, json.dumps(asdict(use))),
            ).rowcount
        return bool(fresh)

    def tallies(self, skill: str | None = None) -> list[UseCounts]:
        """For each card, family and device."""
        return [counts for counts in self._counted(apart=True) if skill is None or counts.skill == skill]

    def totals(self) -> list[UseCounts]:
        """For each card, over families and devices."""
        return self._counted(apart=False)

    def _counted(self, apart: bool) -> list[UseCounts]:
        retrieved, selected = Counter[_Key](), Counter[_Key]()
        uplifts: dict[_Key, list[float]] = {}
        for _, use in self._since(0):
            names = {name for scheme in use.schemes for name in scheme.selected}
            for name in {*use.retrieved, *names}:
                key = (name, use.family, use.device) if apart else (name, "", "")
                retrieved[key] += name in use.retrieved
                selected[key] += sum(name in scheme.selected for scheme in use.schemes)
                uplift = uplift_of(name, use.schemes)
                uplifts.setdefault(key, []).extend([] if uplift is None else [uplift])
        return [UseCounts(*key, retrieved[key], selected[key], *_mean(uplifts[key])) for key in sorted(uplifts)]

    def _since(self, version: int) -> Iterator[tuple[int, Use]]:
        """The episodes that were counted from a library version on, each with the version that it saw."""
        with self.store.sound():
            for row in self.store.rows("SELECT body FROM uses WHERE version >= ? ORDER BY row", version):
                use = json.loads(row["body"])
                schemes = tuple(Scheme(tuple(scheme["selected"]), tuple(scheme["worths"])) for scheme in use["schemes"])
                yield use["library_version"], Use(**{**use, "schemes": schemes})

    def uplifts(self, since: Mapping[str, int]) -> dict[str, list[float]]:
        """For each of these cards, what single episodes gained with it, from the library version on that is given for it."""
        found: dict[str, list[float]] = {name: [] for name in since}
        for seen, use in self._since(min(since.values(), default=0)) if since else ():
            for name in {name for scheme in use.schemes for name in scheme.selected} & since.keys():
                uplift = uplift_of(name, use.schemes) if seen >= since[name] else None
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


def _mean(uplifts: Sequence[float]) -> tuple[int, float | None, float | None]:
    """How many, their mean, and its standard error."""
    count = len(uplifts)
    mean = math.fsum(uplifts) / count if count else None
    return count, mean, stdev(uplifts) / math.sqrt(count) if count > 1 else None
