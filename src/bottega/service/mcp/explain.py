"""A verdict in words, for an agent that has to decide what to do next. Pure functions; nothing is judged here."""

from __future__ import annotations

from typing import Any

from bottega.core.verdict import Outcome, Verdict, interval_text
from bottega.judge.diagnosis import ADVICE

MEANING = {
    Outcome.FASTER: "Right, honest, and surely faster than the baseline: the whole confidence interval lies above 1.",
    Outcome.SAME: "Right and honest, and as fast as the baseline within a few per cent. It does not count as faster.",
    Outcome.SLOWER: "Right and honest, but surely slower than the baseline.",
    Outcome.AMBIGUOUS: "Right and honest. The times scatter too much to say whether it is faster: on a quiet machine it may be told.",
    Outcome.INCORRECT: "Its outputs differ from the fp64 oracle by more than the reference's own rounding allows.",
    Outcome.COMPILE_ERROR: "It could not be built or imported; nothing of it was run.",
    Outcome.RUNTIME_ERROR: "It was built, and failed when it was called.",
    Outcome.TIMEOUT: "It did not end in time, and was stopped.",
    Outcome.REJECTED: "It broke a rule, whatever its speed: its measured time is not that of the work. Such a kernel earns nothing.",
    Outcome.INVALID_TASK: "The task itself cannot be judged; this says nothing about the kernel.",
}
NEXT = {
    Outcome.FASTER: "Keep it. Go on only while its time is far above the floor of the roofline.",
    Outcome.SAME: "Look where its time goes (profile_kernel), and search the skills for the operator.",
    Outcome.SLOWER: "Look where its time goes (profile_kernel); the baseline may be a tuned library kernel.",
    Outcome.AMBIGUOUS: "Judge it again with quick=false, or make the gain larger.",
    Outcome.INCORRECT: "Fix the first difference that the diagnosis names, before anything about speed.",
    Outcome.COMPILE_ERROR: "Fix the first error that the diagnosis names.",
    Outcome.RUNTIME_ERROR: "Fix the first error that the diagnosis names: shapes, strides and data types of the arguments first.",
    Outcome.TIMEOUT: "Look for a loop that does not end, a deadlock, or a build that takes minutes.",
    Outcome.REJECTED: "Do the work in your own kernels, on every call's own inputs, before forward returns.",
    Outcome.INVALID_TASK: "Call check_task with the task, and repair what it names.",
}


def summary(verdict: Verdict) -> dict[str, Any]:
    """What an agent needs of a verdict, without the parts that only a report shows."""
    told: dict[str, Any] = {"outcome": verdict.outcome.value, "correct": verdict.correct, "baseline": verdict.baseline}
    told["speedup"] = {
        name: {"point": round(row.point, 4), "low": round(row.low, 4), "high": round(row.high, 4)}
        for name, row in verdict.speedup.items()
    }
    told["violations"] = [{"name": each.name, "detail": each.detail} for each in verdict.violations]
    return {**told, "diagnosis": verdict.diagnosis, "notes": list(verdict.notes)}


def explanation(verdict: Verdict) -> str:
    lines = [f"{verdict.outcome.value}: {MEANING[verdict.outcome]}"]
    for name, row in verdict.speedup.items():
        lines.append(f"Against {name}: {row.point:.3f} times as fast, 99 % interval {interval_text(row.low, row.high, 3)}.")
    floor, own = verdict.times_ms.get("floor"), verdict.times_ms.get("candidate")
    if floor and own:
        lines.append(f"It takes {own:.4g} ms; no kernel for this task can take less than about {floor:.4g} ms here.")
    for violation in verdict.violations:
        lines.append(f"Rule {violation.name}: {violation.detail} {ADVICE.get(violation.name, '')}".rstrip())
    lines += [verdict.diagnosis, *verdict.notes, f"Next: {NEXT[verdict.outcome]}"]
    return "\n".join(line for line in lines if line)


def profile(verdict: Verdict) -> dict[str, Any]:
    """Where the time goes, as far as the judge measured it."""
    floor, own = verdict.times_ms.get("floor"), verdict.times_ms.get("candidate")
    return {
        "outcome": verdict.outcome.value,
        "times_ms": verdict.times_ms,
        "share_of_roofline": round(floor / own, 4) if floor and own else None,
        "own_kernels": verdict.coverage,
        "profile": verdict.profile,
        "error": verdict.error,
        "memory": verdict.memory,
        "judging_seconds": verdict.stages_s,
        "device": verdict.fingerprint.get("device"),
        "diagnosis": verdict.diagnosis,
    }
