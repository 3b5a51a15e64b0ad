"""How long threads ran on a core, and how long they were ready to run and had none, as the operating system counts it.

A busy machine makes threads wait and does not make them run longer; a thread that sleeps does neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

Times = tuple[int, int]
"""Nanoseconds that a thread ran and waited."""


def thread_times(thread: str = "/proc/thread-self") -> Times:
    """In all its life so far; zeros where the thread is gone or the system does not count."""
    try:
        with open(f"{thread}/schedstat", encoding="ascii") as file:
            ran, waited = file.read().split()[:2]
        return int(ran), int(waited)
    except (OSError, ValueError):
        return 0, 0


@dataclass(frozen=True)
class CoreTime:
    """Nanoseconds of a cell between two freezes, without what stopping it took."""

    ran: int = 0
    """Of the thread that answers the referee."""
    waited: int = 0
    """Of the same thread, and of the warden until it had let it run."""
    longest_wait: int = 0
    """Of whichever thread waited longest. Not the sum of all: they wait at the same time, and whoever starts many must not make more
    of it than has passed."""

    def __add__(self, other: CoreTime) -> CoreTime:
        return CoreTime(self.ran + other.ran, self.waited + other.waited, self.longest_wait + other.longest_wait)

    def to_bytes(self) -> bytes:
        return b"%d %d %d" % (self.ran, self.waited, self.longest_wait)

    @classmethod
    def from_bytes(cls, text: bytes) -> CoreTime:
        return cls(*map(int, text.split()))


class CoreWatch:
    """The warden's. It looks before it stops a cell and after: to be stopped a sleeping thread is woken, and waits for that too."""

    def __init__(self, first: int, counts: bool = True) -> None:
        """`first` is the process whose first thread answers the referee. Without `counts` nothing is read, and nothing was spent."""
        self._first, self._counts = str(first), counts
        self._before: dict[str, Times] = {}
        self._own_wait = self._thaw_wait = 0

    def thawed(self) -> None:
        if not self._counts:
            return
        self._thaw_wait = thread_times()[1] - self._own_wait

    def look(self, processes: Iterable[int]) -> CoreTime:
        """Since they were seen at rest."""
        if not self._counts:
            return CoreTime()
        ran, waited, longest = 0, self._thaw_wait, 0
        for thread, now in _by_thread(processes).items():
            before = self._before.get(thread, (0, 0))
            longest = max(longest, now[1] - before[1])
            if thread == self._first:
                ran, waited = now[0] - before[0], waited + now[1] - before[1]
        return CoreTime(ran, waited, longest)

    def at_rest(self, processes: Iterable[int]) -> None:
        """They are stopped: count from here."""
        if not self._counts:
            return
        self._before = _by_thread(processes)
        self._own_wait, self._thaw_wait = thread_times()[1], 0


def _by_thread(processes: Iterable[int]) -> dict[str, Times]:
    found: dict[str, Times] = {}
    for process in processes:
        try:
            threads = os.listdir(f"/proc/{process}/task")
        except OSError:
            continue
        found.update({thread: thread_times(f"/proc/{process}/task/{thread}") for thread in threads})
    return found
