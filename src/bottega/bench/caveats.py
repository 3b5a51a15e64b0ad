"""What a reader must know before reading a run's figures: what is missing, what cannot be judged fairly, what was not timed."""

from __future__ import annotations

from collections.abc import Sequence

from bottega.bench.attempt import BenchRun
from bottega.bench.result_arrays import ResultArrays
from bottega.judge.baselines import LEFT_OUT


def caveats(run: BenchRun, results: ResultArrays, baseline: str, reasons: dict[str, str]) -> list[str]:
    notes = []
    if not results.tasks:
        return ["the run has no tasks, so there are no figures"]
    missing = [task.name or task.id for task, attempts in zip(results.tasks, results.attempts) if not attempts]
    if len(missing) == len(results.tasks):
        notes.append("no task has an attempt yet: every share is 0 because nothing was tried")
    elif missing:
        notes.append(
            f"{_counted(len(missing), 'task has', 'tasks have')} no attempt; such a task counts as a failure: {_some(missing)}"
        )
    asked_for = results.samples * results.turns
    short = [task.name or task.id for task, attempts in zip(results.tasks, results.attempts) if 0 < len(attempts) < asked_for]
    if short:
        what = _counted(len(short), "task has", "tasks have")
        notes.append(f"{what} fewer than {asked_for} attempts; what is missing counts as failed: {_some(short)}")
    if reasons:
        what = _counted(len(reasons), "task", "tasks")
        notes.append(f"{what} cannot be judged fairly; figures are given with and without them")
    right = int(results.correct.sum())
    untimed = right - int((results.point > 0).sum())
    if untimed:
        notes.append(
            f"{untimed} of {right} right kernels were not timed against {baseline}: "
            "they count as right, and as faster than nothing"
        )
    verdicts = [attempt.verdict for attempts in results.attempts for attempt in attempts if attempt.verdict is not None]
    left_out = sum(any(note.startswith(LEFT_OUT) for note in verdict.notes) for verdict in verdicts)
    if left_out:
        notes.append(
            f"of {_counted(left_out, 'kernel', 'kernels')} a baseline could not be run: the fastest of the others stands for it in `best`, "
            "and eager where it was the first one; the verdicts' notes say why"
        )
    known = {task.id for task in run.tasks}
    strangers = sum(attempt.task not in known for attempt in run.attempts)
    if strangers:
        notes.append(f"{_counted(strangers, 'attempt belongs', 'attempts belong')} to no task of the run, and that is left out")
    if run.settings.get("quick"):
        notes.append("judged quickly, with fewer inputs and fewer timed rounds: not for publishing")
    if run.settings.get("strategy") in ("beam", "evolve") and results.turns > 1:
        notes.append(
            "turns are kernels in the order in which the search wrote them; they are not all refinements of one another"
        )
    versions = judge_versions(run)
    if len(versions) > 1:
        notes.append(
            f"verdicts come from different judges (versions {', '.join(versions)}): figures mix what cannot be compared"
        )
    return notes


def judge_versions(run: BenchRun) -> tuple[str, ...]:
    """Of every verdict that says by which judge it was given, and of the run itself."""
    prints = [run.fingerprint, *(attempt.verdict.fingerprint for attempt in run.attempts if attempt.verdict is not None)]
    return tuple(sorted({str(each["judge"]) for each in prints if each.get("judge")}))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
