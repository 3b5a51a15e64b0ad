"""Whether two runs are comparable: differences in judge, device, tasks and number of kernels."""

from __future__ import annotations

from typing import Any

from bottega.bench.attempt import BenchRun
from bottega.bench.caveats import judge_versions
from bottega.bench.result_arrays import asked

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
    kernels = [asked(run, "samples") * asked(run, "turns") for run in (base, other)]
    if kernels[0] != kernels[1]:
        notes.append(
            f"other budgets: {kernels[0]} against {kernels[1]} kernels a task; the best of more is better by chance alone"
        )
    redraws = [run.settings.get("redraws") or 0 for run in (base, other)]
    if redraws[0] != redraws[1]:
        notes.append(
            f"other proofreading: up to {redraws[0]} against {redraws[1]} answers were drawn again where a fault was seen; "
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
