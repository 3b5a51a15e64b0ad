"""Cores that are kept free for timing. Beside a GPU, tasks are opened and kernels are compiled on all cores but a few; whoever is timed may
use those too, and finds them idle. A judge with many workers would else make the calls wait that it times.

On a CPU every core is the kernel's, and nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

KEPT = 4
"""The referee, the side whose turn it is and its warden, which all spin meanwhile, and one for threads of the driver."""
FEWEST = 12
"""A machine with fewer has none to spare."""

_all: frozenset[int] = frozenset()
"""What there was before `keep_off`; empty where nothing is kept free. Processes that are forked afterwards know it too."""


def keep_off(kept: int = KEPT, fewest: int = FEWEST) -> None:
    """This thread and whatever it starts from here on."""
    global _all
    cores = os.sched_getaffinity(0)
    if len(cores) >= fewest:
        _all = frozenset(cores)
        allow([0], everywhere=False, kept=kept)


def allow(threads: Iterable[int], everywhere: bool, kept: int = KEPT) -> None:
    """Let threads, 0 for the caller's, use all cores, or all but those that are kept. One that is gone, or not ours to move, stays as it is."""
    chosen = sorted(_all) if everywhere else sorted(_all)[:-kept]
    for thread in threads if chosen else ():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, chosen)


def threads_of(processes: Iterable[int]) -> list[int]:
    found: list[int] = []
    for process in processes:
        with contextlib.suppress(OSError):
            found += map(int, os.listdir(f"/proc/{process}/task"))
    return found
