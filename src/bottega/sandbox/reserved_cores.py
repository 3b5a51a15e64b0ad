"""Cores that sandboxes do not use unless they are granted them: whoever needs a quiet core finds one on a busy machine.

The set is process state, inherited by every fork.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

_all: frozenset[int] = frozenset()
"""The cores before `reserve`; empty where none are reserved."""
_reserved = 0


def reserve(count: int) -> None:
    """Keep this thread and what it starts off the last `count` cores."""
    global _all, _reserved
    _all, _reserved = frozenset(os.sched_getaffinity(0)), count
    allow([0], everywhere=False)


def allow(threads: Iterable[int], everywhere: bool) -> None:
    """Let threads (0 is the caller's) use all cores, or all but the reserved ones. Threads that ended or cannot be moved are skipped."""
    chosen = sorted(_all) if everywhere else sorted(_all)[:-_reserved]
    for thread in threads if chosen else ():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, chosen)


def threads_of(processes: Iterable[int]) -> list[int]:
    found: list[int] = []
    for process in processes:
        with contextlib.suppress(OSError):
            found += map(int, os.listdir(f"/proc/{process}/task"))
    return found
