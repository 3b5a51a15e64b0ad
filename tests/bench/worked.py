"""Runs made up by hand, small enough to work out every figure on paper. Verdicts are what a judge writes; no judge ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bottega.bench.attempt import BenchAttempt, BenchRun, BenchTask
from bottega.core.verdict import Outcome, Speedup, Verdict

Told = str | float | tuple[float, float, float] | None
"""An outcome's name, a speedup with a narrow interval, a speedup with its interval, or an answer without a kernel."""


def verdict(told: str | float | tuple[float, float, float], baselines: Sequence[str] = ("eager",), judge: str = "1") -> Verdict:
    if isinstance(told, str):
        return Verdict(Outcome(told), fingerprint={"judge": judge})
    point, low, high = told if isinstance(told, tuple) else (told, told * 0.99, told * 1.01)
    outcome = Outcome.FASTER if low > 1 else Outcome.SLOWER if high < 1 else Outcome.AMBIGUOUS
    speedups = {name: Speedup(point, low, high) for name in baselines}
    return Verdict(outcome, True, speedups, coverage={"share": 0.5}, fingerprint={"judge": judge})


def attempt(task: str, sample: int, turn: int, told: Told, **changes: Any) -> BenchAttempt:
    options = {name: changes.pop(name) for name in ("baselines", "judge") if name in changes}
    found = None if told is None else verdict(told, **options)
    facts = {"candidate": "" if told is None else f"{task}{sample}{turn}", "language": "cpp", "prompt_tokens": 100, "output_tokens": 10,
                 "money": 0.5, "seconds": 2.0, "skills": (), "junk": "no code" if told is None else ""}  # fmt: skip
    return BenchAttempt(task=task, sample=sample, turn=turn, verdict=found, **{**facts, **changes})


def run_of(
    told: dict[str, Sequence[Sequence[Told]]], tasks: dict[str, dict[str, Any]] | None = None, **changes: Any
) -> BenchRun:
    """By task its samples, each a list of turns."""
    judge = changes.pop("judge", "1")
    attempts = [
        attempt(task, sample, turn, each, judge=judge)
        for task, rows in told.items()
        for sample, row in enumerate(rows)
        for turn, each in enumerate(row)
    ]
    found = []
    for name in told:
        facts = {"level": 1, "family": "norm", "source": "", **(tasks or {}).get(name, {})}
        found.append(BenchTask(id=name, name=f"task {name}", **facts))
    samples = max((len(rows) for rows in told.values()), default=1)
    turns = max((len(row) for rows in told.values() for row in rows), default=1)
    settings = {"samples": samples, "turns": turns, "baselines": ["eager"], "backbone": "scripted"}
    fingerprint = {"judge": judge, "device": "cpu", "cpu": "paper"}
    facts = {"folder": Path("run"), "settings": settings, "fingerprint": fingerprint, **changes}
    return BenchRun(tasks=tuple(found), attempts=tuple(attempts), **facts)
