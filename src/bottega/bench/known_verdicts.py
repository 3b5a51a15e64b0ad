"""Verdicts that are reused for the same source on the same task: from this run, and from earlier runs with the same judge settings.

Arms of a comparison that give the same answer are then told by the same verdict, so that no noise of timing lies between them. A word that
the task could not be judged, or that the device was busy, may be a neighbour's fault, and is never taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bottega.bench.attempt import BenchAttempt, BenchRun, Log
from bottega.bench.caveats import JUDGED_BY, MEASURED_ON
from bottega.bench.run_directory import read_run
from bottega.bench.settings import BenchJudgeSettings
from bottega.bench.task_set import CANNOT
from bottega.core.errors import UsageError
from bottega.core.verdict import Verdict
from bottega.episodes.request import differences
from bottega.judge.verdict_cache import VerdictCache

FROM_OUTSIDE = ("work_after_return", "baseline_disturbed")
"""Violations that a busy device looks like."""
SAME_TEXT = ", the same text on the same task"
"""How the note of a verdict ends that was taken over from another run."""


@dataclass
class KnownVerdicts(VerdictCache):
    """One for a run, however many devices it has."""

    fitness: dict[str, str] = field(default_factory=dict)
    """By task, why it cannot be judged fairly; empty where it can."""


def read_known(
    folders: Sequence[Path], judging: BenchJudgeSettings, fingerprint: dict[str, Any], log: Log | None = None
) -> KnownVerdicts:
    """Of these runs, the first that has a verdict is believed. Raises `UsageError` for one that was judged otherwise."""
    known = KnownVerdicts()
    for folder in folders:
        run = read_run(folder, log)
        _same_terms(run, judging, fingerprint)
        for attempt in run.attempts:
            verdict = standing(attempt)
            if verdict is not None and (attempt.task, attempt.candidate) not in known.verdicts:
                known.keep(attempt.task, attempt.candidate, _noted(verdict, run_name(folder)))
        looked_at = {attempt.task for attempt in run.attempts}
        rows = [row for row in run.tasks if row.id in looked_at and not row.fitness.startswith(CANNOT)]
        known.fitness = {row.id: row.fitness for row in rows} | known.fitness
    return known


def standing(attempt: BenchAttempt) -> Verdict | None:
    """Its verdict, if that is of the text it stands beside and says nothing that another process on the device may have caused."""
    verdict = attempt.verdict
    if verdict is None or verdict.task_id not in ("", attempt.task) or verdict.candidate_id not in ("", attempt.candidate):
        return None
    return None if any(violation.name in FROM_OUTSIDE for violation in verdict.violations) else verdict


def run_name(folder: Path) -> str:
    return folder.resolve().name


def _same_terms(run: BenchRun, judging: BenchJudgeSettings, fingerprint: dict[str, Any]) -> None:
    asked = asdict(judging)
    now = {name: list(asked[name]) if isinstance(asked[name], tuple) else asked[name] for name in JUDGED_BY}
    differing = differences(run.settings, now)
    differing += differences(run.fingerprint, {name: fingerprint.get(name) for name in ("judge", *MEASURED_ON)})
    if differing:
        raise UsageError(
            f"{run.folder}: was judged otherwise: {'; '.join(differing)}. Its verdicts do not stand here; leave out known={run.folder}"
        )


def _noted(verdict: Verdict, name: str) -> Verdict:
    """What that run took over itself keeps the name of the run that judged it."""
    if any(note.endswith(SAME_TEXT) for note in verdict.notes):
        return verdict
    return replace(verdict, notes=(*verdict.notes, f"judged in {name}{SAME_TEXT}"))
