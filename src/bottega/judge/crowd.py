"""How much of the machine others use while kernels are timed on its cores: what they have, the two that are compared do not have alike."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from bottega.judge.worker_link import WorkerLink

UNKNOWN = 1000
"""As if they had a core: where the operating system does not tell, nothing is taken for quiet."""
IDLE, WAITING = 4, 5
"""Columns of a line of /proc/stat: ticks without work, and without work but for reading and writing."""


class Crowd:
    """Counts from its making on."""

    def __init__(self, runners: Collection[WorkerLink], stat: Path = Path("/proc/stat")) -> None:
        self._runners, self._stat = runners, stat
        self._cores = frozenset(f"cpu{core}" for core in os.sched_getaffinity(0))
        self._begun, self._idle, self._own = time.monotonic_ns(), self._idle_ns(), self._own_ns()

    def permille(self) -> int:
        """Thousandths of a core that others have had so far: what is neither idle nor the judge's own."""
        idle, passed = self._idle_ns(), time.monotonic_ns() - self._begun
        if idle is None or self._idle is None or not passed:
            return UNKNOWN
        others = passed * len(self._cores) - (idle - self._idle) - (self._own_ns() - self._own)
        return max(0, round(1000 * others / passed))

    def _idle_ns(self) -> int | None:
        try:
            rows = [line.split() for line in self._stat.read_text(encoding="ascii").splitlines()]
            ticks = [int(row[IDLE]) + int(row[WAITING]) for row in rows if row and row[0] in self._cores]
        except (OSError, ValueError, IndexError):
            return None
        return sum(ticks) * (1_000_000_000 // os.sysconf("SC_CLK_TCK")) if len(ticks) == len(self._cores) else None

    def _own_ns(self) -> int:
        return time.process_time_ns() + sum(runner.used_ns for runner in self._runners)
