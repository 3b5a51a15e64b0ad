"""What was measured with a card: trials, which are its evidence, and the single attempts of a proof, kept so that it can go on.

Both are only ever added. An attempt's key is its proof and its place in it, a trial's key its proof and task: writing either again
changes nothing, so a proof that died can be run again from its start and repeats no finished work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bottega.core.trial import Trial
from bottega.core.verdict import Verdict
from bottega.skills.store import Change, SkillStore

Kind = TypeVar("Kind", Trial, Verdict)


class Evidence:
    def __init__(self, store: SkillStore) -> None:
        self.store = store

    def trials(self, skill: str) -> list[Trial]:
        """A card's trials and those of the cards that were merged into it, oldest first."""
        names = self.merged_into(skill)
        marks = ", ".join("?" * len(names))
        rows = self.store.rows(f"SELECT body FROM trials WHERE skill IN ({marks}) ORDER BY row", *names)
        return [self._read(Trial.from_json, row["body"]) for row in rows]

    def record(self, change: Change, trials: Iterable[tuple[str, Trial]]) -> int:
        """Add them, and say how many are new."""
        return sum(
            change.execute(
                "INSERT OR IGNORE INTO trials (version, skill, key, body) VALUES (?, ?, ?, ?)",
                (change.version, trial.skill, key, json.dumps({**trial.to_json(), "at": trial.at or change.at})),
            ).rowcount
            for key, trial in trials
        )

    def has(self, key: str) -> bool:
        return self.store.row("SELECT 1 FROM trials WHERE key = ?", key) is not None

    def add(self, key: str, trial: Trial) -> None:
        with self.store.change("trial", f"{trial.skill} on {trial.task_name}") as change:
            self.record(change, [(key, trial)])

    def merged_into(self, skill: str) -> list[str]:
        """The card itself and, by way of any number of merges, the cards that now are part of it."""
        names, pending = [skill], [skill]
        while pending:
            rows = self.store.rows(
                "SELECT name FROM merges AS m WHERE into_name = ? AND version = (SELECT max(version) FROM merges WHERE name = m.name)",
                pending.pop(),
            )
            fresh = [row["name"] for row in rows if row["name"] not in names]
            names += fresh
            pending += fresh
        return names

    def attempts(self, proof: str) -> dict[str, Verdict]:
        rows = self.store.rows("SELECT job, verdict FROM attempts WHERE proof = ?", proof)
        return {row["job"]: self._read(Verdict.from_json, row["verdict"]) for row in rows}

    def _read(self, kind: Callable[[dict[str, Any]], Kind], text: str) -> Kind:
        with self.store.sound():
            return kind(json.loads(text))

    def keep_attempt(self, proof: str, job: str, verdict: Verdict) -> Verdict:
        """Keep it, unless another process was first with the same attempt: then that one's verdict is the attempt's."""
        with self.store.change("attempt", f"{proof} {job}") as change:
            change.execute(
                "INSERT OR IGNORE INTO attempts (proof, job, verdict, at) VALUES (?, ?, ?, ?)",
                (proof, job, json.dumps(verdict.to_json()), change.at),
            )
            row = change.execute("SELECT verdict FROM attempts WHERE proof = ? AND job = ?", (proof, job)).fetchone()
        return self._read(Verdict.from_json, row["verdict"])
