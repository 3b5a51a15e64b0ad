"""How long threads ran on a core, and how long they were ready to run and had none, as the operating system counts it.

A busy machine makes threads wait and does not make them run longer; a thread that sleeps does neither. So the same count tells whether a
cell that was stopped stayed stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bottega.sandbox import threads
from bottega.sandbox.threads import Thread

SLACK_NS = 50_000
"""What all threads of a stopped cell together may run and still count as stopped, from one stop to the next start: an alarm that rings
while a process is frozen makes it look up, for microseconds. Where signals stop it not even that happens."""
_LOOKS, _LOOK_AGAIN_S = 20, 0.00005
_RUNNING = ord("R")


def thread_times(thread: str = "/proc/thread-self") -> tuple[int, int]:
    """Nanoseconds that a thread ran and waited in all its life so far; zeros where it is gone or the system does not count."""
    return threads.read_times(thread)[:2]


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
        ran, waited, longest_wait = map(int, text.split())
        return cls(ran, waited, longest_wait)


class CoreWatch:
    """The warden's. It looks before it stops a cell and after: to be stopped a sleeping thread is woken, and waits for that too."""

    def __init__(self, first: int, counts: bool = True) -> None:
        """`first` is the process whose first thread answers the referee. Without `counts` nothing is read, and nothing was spent."""
        self._first, self._counts = first, counts
        self._before: dict[int, Thread] = {}
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
        for thread, now in _times(processes).items():
            before = self._before.get(thread)
            waited_now = now[1] - (before.waited if before else 0)
            longest = max(longest, waited_now)
            if thread == self._first:
                ran, waited = now[0] - (before.ran if before else 0), waited + waited_now
        return CoreTime(ran, waited, longest)

    def at_rest(self, processes: Sequence[int], seen: dict[int, Thread] | None = None) -> None:
        """They are stopped: count from here, or from what was seen of them. The freezer does not wait for a process that has nearly ended,
        nor for the parent to whom that is told; so two looks must agree, and show nobody on a core, whose time would not be up to date."""
        if not self._counts:
            return
        self._before = threads.look(processes) if seen is None else seen
        for _ in range(_LOOKS if seen is None else 0):
            before, self._before = self._before, threads.look(processes)
            if before == self._before and not any(thread.state == _RUNNING for thread in before.values()):
                break
            time.sleep(_LOOK_AGAIN_S)
        self._own_wait, self._thaw_wait = thread_times()[1], 0

    def still(self, processes: Iterable[int]) -> bool:
        """Whether nobody ran since: the same threads, but for such as had ended, and none of them was on a core for longer."""
        if not self._counts:
            return True
        now = _times(processes)
        if any(not thread.ended and number not in now for number, thread in self._before.items()):
            return False
        more = 0
        for number, (ran, _) in now.items():
            before = self._before.get(number)
            if before is None or ran < before.ran:
                return False  # a new thread, or a new one by an old number
            more += ran - before.ran
        return more <= SLACK_NS


def _times(processes: Iterable[int]) -> dict[int, tuple[int, int]]:
    return {number: thread_times(folder) for number, folder in threads.folders(processes)}
