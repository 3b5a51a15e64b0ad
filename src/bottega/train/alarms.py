"""Alarms for collapse: signs that a run is learning to fail, from its own figures. Pure functions of what was measured.

Three ways in which such runs have died (Kevin, CUDA Agent, Dr. Kernel): entropy that runs away or vanishes, answers that are junk, and
kernels that stay right while they stop being fast. Each compares the last few steps with the run's own past, not with a fixed number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AlarmRules:
    window: int = 5
    """Steps whose mean is looked at; nothing is said before there are two windows."""
    entropy_low: float = 0.1
    """Share of the first window's entropy below which nothing is tried any more."""
    entropy_high: float = 3.0
    """Multiple of it, above which answers are noise."""
    junk: float = 0.5
    """Share of answers without a kernel, where it was at least `junk_rise` lower once."""
    junk_rise: float = 0.25
    fast_least: float = 0.05
    """fast_1.2 must have been this high before its fall means anything."""
    fast_kept: float = 0.5
    """Share of its best window that it must keep."""


def alarms(history: Sequence[Mapping[str, float]], rules: AlarmRules | None = None) -> list[str]:
    """What is wrong after the last of these steps, one sentence each; nothing while all is well."""
    rules = rules or AlarmRules()
    found: list[str] = []
    entropy = _windows(history, "entropy", rules.window)
    if entropy:
        first, last = entropy[0], entropy[-1]
        if last < rules.entropy_low * first:
            found.append(f"entropy fell from {first:.3g} to {last:.3g}: hardly anything is tried any more")
        if last > rules.entropy_high * first:
            found.append(f"entropy rose from {first:.3g} to {last:.3g}: answers turn into noise")
    junk = _windows(history, "junk", rules.window)
    if junk and junk[-1] > rules.junk and junk[-1] - min(junk) >= rules.junk_rise:
        found.append(f"{junk[-1]:.0%} of the answers hold no kernel, and {min(junk):.0%} did once")
    fast = _windows(history, "fast_1.2", rules.window)
    if fast and max(fast) >= rules.fast_least and fast[-1] < rules.fast_kept * max(fast):
        found.append(f"fast_1.2 fell from {max(fast):.1%} to {fast[-1]:.1%}")
    return found


def _windows(history: Sequence[Mapping[str, float]], name: str, size: int) -> list[float]:
    """Means of every run of `size` steps in order; empty until the last one shares no step with the first."""
    values = [figures[name] for figures in history if name in figures]
    if len(values) < 2 * size:
        return []
    return [sum(values[at : at + size]) / size for at in range(len(values) - size + 1)]
