"""Alarms for collapse: signs that a run is learning to fail, from its own figures. Pure functions of what was measured.

Three ways in which such runs have died (Kevin, CUDA Agent, Dr. Kernel): entropy that runs away or vanishes, answers that are junk, and
kernels that stay right while they stop being fast. Each compares the last few steps with the run's own past, not with a fixed number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WINDOW = 5
"""Steps whose mean is looked at; nothing is said before there are two windows."""
ENTROPY = (0.1, 3.0)
"""Share of the first window's entropy below which nothing is tried any more, and multiple of it above which answers are noise."""
JUNK, JUNK_RISE = 0.5, 0.25
"""Share of answers without a kernel, where it was at least so much lower once."""
FAST_LEAST, FAST_KEPT = 0.05, 0.5
"""fast_1.2 must have been this high before its fall means anything, and must keep this share of its best window."""


def alarms(history: Sequence[Mapping[str, float]], window: int = WINDOW) -> list[str]:
    """What is wrong after the last of these steps, one sentence each; nothing while all is well."""
    found: list[str] = []
    entropy = _windows(history, "entropy", window)
    if entropy:
        first, last = entropy[0], entropy[-1]
        if last < ENTROPY[0] * first:
            found.append(f"entropy fell from {first:.3g} to {last:.3g}: hardly anything is tried any more")
        if last > ENTROPY[1] * first:
            found.append(f"entropy rose from {first:.3g} to {last:.3g}: answers turn into noise")
    junk = _windows(history, "junk", window)
    if junk and junk[-1] > JUNK and junk[-1] - min(junk) >= JUNK_RISE:
        found.append(f"{junk[-1]:.0%} of the answers hold no kernel, and {min(junk):.0%} did once")
    fast = _windows(history, "fast_1.2", window)
    if fast and max(fast) >= FAST_LEAST and fast[-1] < FAST_KEPT * max(fast):
        found.append(f"fast_1.2 fell from {max(fast):.1%} to {fast[-1]:.1%}")
    return found


def _windows(history: Sequence[Mapping[str, float]], name: str, size: int) -> list[float]:
    """Means of every run of `size` steps in order; empty until the last one shares no step with the first."""
    values = [figures[name] for figures in history if name in figures]
    if len(values) < 2 * size:
        return []
    return [sum(values[at : at + size]) / size for at in range(len(values) - size + 1)]
