"""What a reader must know before reading a run's figures, or comparing two runs: what is missing, cannot be judged fairly, was not timed, differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bottega.bench.attempt import BenchRun
from bottega.bench.result_arrays import ResultArrays, asked, drafts_asked, own_turns
from bottega.bench.settings import WIDE
from bottega.core.verdict import BEST, Verdict
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
    drafts = drafts_asked(run)
    asked_for = results.samples * (own_turns(run) if drafts else results.turns)
    own = [sum(attempt.author == "model" for attempt in attempts) for attempts in results.attempts]
    short = [task.name or task.id for task, count in zip(results.tasks, own) if 0 < count < asked_for]
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
    if drafts:
        if own_turns(run):
            notes.append(
                f"where no kernel of a sample was faster, up to {_counted(drafts, 'draft', 'drafts')} of the rule-based compiler were judged too: "
                "figures are of both together, and no model's alone"
            )
        else:
            notes.append("all kernels are the rule-based compiler's: no model was asked")
    if run.settings.get("quick"):
        notes.append("judged quickly, with fewer inputs and fewer timed rounds: not for publishing")
    if run.settings.get("strategy") in WIDE and results.turns > 1:
        notes.append(
            "turns are kernels in the order in which the search wrote them; they are not all refinements of one another"
        )
    versions = judge_versions(run)
    if len(versions) > 1:
        notes.append(
            f"verdicts come from different judges (versions {', '.join(versions)}): figures mix what cannot be compared"
        )
    return notes


def remarks(results: ResultArrays, baseline: str) -> list[str]:
    """What helps a reader beside the caveats. No part of a record, whose words must follow from its attempts in every version."""
    told = []
    if baseline == BEST:
        fastest = Counter(verdict.fastest_baseline for verdict in _firsts(results) if verdict.fastest_baseline)
        each = ", ".join(f"{name} of {count}" for name, count in fastest.most_common())
        told += [f"the best baseline is {each} tasks"] if each else []
    verdicts = [attempt.verdict for attempts in results.attempts for attempt in attempts if attempt.verdict is not None]
    disturbed = sum(verdict.disturbed for verdict in verdicts)
    if disturbed:
        told.append(
            f"{disturbed} of {_counted(len(verdicts), 'kernel was', 'kernels were')} timed while others had the machine: "
            "their points, and means of them, say little; run it again when it is idle"
        )
    return told


def _firsts(results: ResultArrays) -> list[Verdict]:
    """Of each task the first verdict that was timed: a baseline's time hardly depends on the candidate."""
    timed = [
        [each.verdict for each in attempts if each.verdict is not None and each.verdict.speedup]
        for attempts in results.attempts
    ]
    return [verdicts[0] for verdicts in timed if verdicts]


def judge_versions(run: BenchRun) -> tuple[str, ...]:
    """Of every verdict that says by which judge it was given, and of the run itself."""
    prints = [run.fingerprint, *(attempt.verdict.fingerprint for attempt in run.attempts if attempt.verdict is not None)]
    return tuple(sorted({str(each["judge"]) for each in prints if each.get("judge")}))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


MEASURED_ON = ("device", "gpu", "cpu", "cores", "torch", "triton", "compiler")
SAME_MACHINE = ("judge", "device", "gpu", "cpu", "torch", "triton")
"""Parts of a fingerprint that must be the same for attempts to stand in one run."""
JUDGED_BY = ("kind", "baselines", "precision", "mode", "quick", "timeout", "require_kernel")


def incomparable(base: BenchRun, other: BenchRun, baseline: str) -> list[str]:
    """In sentences; empty where a difference in figures is one between the runs' kernels."""
    notes = []
    if base.folder.resolve() == other.folder.resolve():
        notes.append("both are the same run: nothing can differ")
    if not base.attempts or not other.attempts:
        empty = [str(run.folder) for run in (base, other) if not run.attempts]
        notes.append(f"{' and '.join(empty)} has no attempts: every difference is one between something and nothing")
    one, two = (", ".join(judge_versions(run)) or "unknown" for run in (base, other))
    if one != two:
        notes.append(
            f"other judges: version {one} against {two}; the same kernel may get another verdict. Judge one of them again"
        )
    where = [_difference(name, base.fingerprint, other.fingerprint) for name in MEASURED_ON]
    if any(where):
        notes.append(f"measured on other machines or software, so speedups do not compare: {_joined(where)}")
    how = [_difference(name, base.settings, other.settings) for name in JUDGED_BY]
    if any(how):
        notes.append(f"judged otherwise: {_joined(how)}")
    kernels = [asked(run, "samples") * own_turns(run) for run in (base, other)]
    if kernels[0] != kernels[1]:
        notes.append(
            f"other budgets: {kernels[0]} against {kernels[1]} kernels a task; the best of more is better by chance alone"
        )
    drafts = [drafts_asked(run) for run in (base, other)]
    if drafts[0] != drafts[1]:
        notes.append(
            f"other authors: up to {drafts[0]} against {drafts[1]} drafts of the compiler for a sample that has no faster kernel; "
            "a difference is not one between models"
        )
    redraws = [run.settings.get("redraws") or 0 for run in (base, other)]
    if redraws[0] != redraws[1]:
        notes.append(
            f"other resampling: up to {redraws[0]} against {redraws[1]} answers were drawn again where a fault was seen; "
            "part of a difference may be that, and tokens count them"
        )
    for run in (base, other):
        timed = {name for attempt in run.attempts if attempt.verdict is not None for name in attempt.verdict.speedup}
        if timed and baseline not in timed:
            notes.append(f"{run.folder} was not timed against {baseline}, only against {', '.join(sorted(timed))}")
    return notes


def _difference(name: str, one: dict[str, Any], two: dict[str, Any]) -> str:
    first, second = (tuple(value) if isinstance(value := each.get(name), list) else value for each in (one, two))
    return "" if first == second else f"{name} {_word(first)} against {_word(second)}"


def _word(value: Any) -> str:
    if value is None or value == "":
        return "unknown"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _joined(parts: list[str]) -> str:
    return "; ".join(part for part in parts if part)
