"""A core for each thread of a stopped sandbox whose threads fill the machine.

A thread pool that has slept, as it does whenever its process is stopped, is woken beside the thread that wakes it, and both share that core for
milliseconds while another is idle: of an RMS norm that takes two cores 1.2 ms that made 7 ms. So every thread but the first has a core of its own,
and the first goes to the one that is left. It keeps the choice of all, which threads that it starts inherit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from bottega.sandbox.threads import Thread


class CorePlaces:
    def __init__(self, first: int) -> None:
        """`first` is the first thread of the sandbox."""
        self._first = first
        self._cores = sorted(os.sched_getaffinity(0))
        self._placed: set[int] = set()

    def place(self, threads: Mapping[int, Thread]) -> None:
        """Those that ran longest first, so that of several pools each is spread. Fewer threads than cores are left to the operating system."""
        others = [number for number in threads if number != self._first]
        if len(self._cores) < 2 or len(others) < len(self._cores) - 1:
            return
        new = sorted((number for number in others if number not in self._placed), key=lambda number: -threads[number].ran)
        for place, number in enumerate(new, len(self._placed)):
            with contextlib.suppress(OSError):  # it has ended
                os.sched_setaffinity(number, {self._cores[1 + place % (len(self._cores) - 1)]})
        self._placed.update(new)


class FirstCore:
    """For the first thread itself, as a call begins: whoever wakes it draws it to another core."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._first = {min(self._all)}

    def take(self) -> None:
        os.sched_setaffinity(0, self._first)
        os.sched_setaffinity(0, self._all)
