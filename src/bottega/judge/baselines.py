"""What a candidate is held against: the module as it is, compiled, compiled with autotuning, or the best of these. Pure.

Three of them are run and timed. `best` is not a fourth: it stands for whichever of the three is fastest on the task, which is what a
user would otherwise run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.verdict import BEST, Speedup

COMPILE_MODES = {"compile": "default", "autotune": "max-autotune-no-cudagraphs"}
"""Modes of torch.compile. Without CUDA graphs: every call here has its inputs at another address, so a graph would copy them to its own
before each replay, and a user with fixed buffers would not pay for that; what a graph saves, launches, is hidden for both runners."""
MEASURED = ("eager", *COMPILE_MODES)
BASELINES = (*MEASURED, BEST)

LEFT_OUT = "baseline: "
"""How a note begins that says so of one."""

Timing = Mapping[str, Mapping[str, Any]]
"""By measured baseline, as an examination finds it."""


def parse_baselines(text: str) -> tuple[str, ...]:
    """From a command line: one name, or several by comma, the first of which the outcome speaks of."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    check_baselines(names)
    return names


def check_baselines(names: Sequence[str]) -> None:
    if (
        not isinstance(names, tuple)
        or not names
        or any(name not in BASELINES for name in names)
        or len(set(names)) < len(names)
    ):
        shown = ",".join(names) if isinstance(names, tuple) else names
        raise UsageError(f"unknown baseline in {shown!r}; use {', '.join(MEASURED)} or {BEST}, or several by comma, each once")


def measured(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are run and timed for these names. `eager` comes first where it is among them: timed outputs are held against the first."""
    return tuple(name for name in MEASURED if name in names or BEST in names)


def with_eager(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same with `eager` measured in any case: whoever beats nothing else may beat that."""
    return names if "eager" in measured(names) else (*names, "eager")


def fastest(timing: Timing) -> str:
    """The baseline that is hardest to beat; empty where none was timed."""
    return min(timing, key=lambda name: (timing[name]["speedup"][0], timing[name]["baseline_ms"]), default="")


def against_best(timing: Timing) -> Speedup:
    """The speedup against the fastest of several, with an interval that does not gain by choosing it from the same rounds.

    Each end is the most cautious one: the smallest over the baselines. The smallest low end is no higher than that of the baseline that
    truly is fastest, so it is as sure as any single one. The smallest high end is too low only if some baseline's is: with three
    intervals of 99 %, this one holds the truth with at least 98 %.
    """
    rows = [row["speedup"] for row in timing.values()]
    return Speedup(*(min(row[place] for row in rows) for place in range(3)))


def speedups(names: Sequence[str], timing: Timing) -> dict[str, Speedup]:
    """By name, in the order in which they were asked for, then what else was measured. Of what could not be run there is nothing."""
    found = {name: Speedup(*row["speedup"]) for name, row in timing.items()}
    if BEST in names and found:
        found[BEST] = against_best(timing)
    return {name: found[name] for name in (*names, *MEASURED) if name in found}


def primary(names: Sequence[str], timing: Timing) -> str:
    """Which one the outcome speaks of: the first that was asked for and could be timed, else `eager`; empty where nothing was timed."""
    return next(iter(speedups(names, timing)), "")


def notes(names: Sequence[str], timing: Timing, unavailable: Mapping[str, str]) -> list[str]:
    """What could not be run, and what that changes."""
    told = []
    for name, reason in unavailable.items():
        then = f"; {BEST} is the fastest of the others" if BEST in names else ""
        if name == names[0] and timing:
            then = f". The outcome speaks of {primary(names, timing)}, and not of {name} as was asked"
        told.append(f"{LEFT_OUT}{name} was left out, for it {reason}{then}")
    return told
