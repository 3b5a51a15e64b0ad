"""Core time: how long threads ran on a core, and how long they were ready and had none, by the operating system's count.

A busy machine makes threads wait and does not make them run longer; a sleeping thread does neither. So the same count shows whether a stopped
sandbox stayed stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace

from bottega.sandbox import threads
from bottega.sandbox.threads import Thread

SLACK_NS = 50_000
"""What all threads of a stopped sandbox together may run and still count as stopped, from one stop to the next start: a timer that expires
while a process is frozen wakes it for microseconds. Where signals stop it not even that happens."""
_LOOKS, _LOOK_AGAIN_S = 20, 0.00005
_RUNNING = ord("R")
_SCHEDULED = 2
"""Which of a process's clocks: time on a core, as the scheduler counts it (CPUCLOCK_SCHED)."""


def thread_times(thread: str = "/proc/thread-self") -> tuple[int, int]:
    """Nanoseconds that a thread ran and waited in all its life so far; zeros where it is gone or the system does not count."""
    return threads.read_times(thread)[:2]


@dataclass(frozen=True)
class CoreTime:
    """Nanoseconds of a sandbox between two freezes, without what stopping it took."""

    ran: int = 0
    """Of the first thread of the sandbox."""
    waited: int = 0
    """Of the same thread, and of the supervisor until it had continued it."""
    longest_wait: int = 0
    """Of whichever thread waited longest. Not the sum of all: they wait at the same time, and starting many threads must not
    add up to more than has passed."""
    others: int = 0
    """What all other threads ran, also those that have ended, until every one was stopped."""
    asked_at: int = 0
    """When the supervisor was asked to stop them, on the monotonic clock."""
    stopping: int = 0
    """What all threads ran from there on."""
    stopped_at: int = 0
    """When every one was stopped, on the same clock."""
    supervised: int = 0
    """What the supervisor itself ran since the last stop."""

    @property
    def whole(self) -> int:
        """What all of it ran, the supervisor included."""
        return self.ran + self.others + self.supervised

    def __add__(self, other: CoreTime) -> CoreTime:
        return CoreTime(
            self.ran + other.ran,
            self.waited + other.waited,
            self.longest_wait + other.longest_wait,
            self.others + other.others,
            self.asked_at or other.asked_at,
            self.stopping + other.stopping,
            max(self.stopped_at, other.stopped_at),
            self.supervised + other.supervised,
        )

    def to_bytes(self) -> bytes:
        return b" ".join(b"%d" % value for value in astuple(self))

    @classmethod
    def from_bytes(cls, text: bytes) -> CoreTime:
        values = [int(value) for value in text.split()]
        if len(values) != len(fields(cls)):
            raise ValueError("not a core time")
        return cls(*values)


class CoreWatch:
    """Used by the supervisor before it stops a sandbox and after: stopping wakes a sleeping thread, which then waits for a core too."""

    def __init__(self, first: int, counts: bool = True, own_numbers: bool = False) -> None:
        """`first` is the first process of the sandbox. Without `counts` nothing is read, and nothing was spent. `own_numbers`: processes of the
        sandbox are numbered apart from all others, so that the last number tells of those that began and are gone."""
        self._first, self._counts, self._own_numbers = first, counts, own_numbers
        self._before: dict[int, Thread] = {}
        self._own_wait = self._thaw_wait = 0
        self._totals: dict[int, int] = {}
        """Nanoseconds of each process when they were last stopped."""
        self._when_asked: dict[int, int] = {}
        self._last = self._last_when_asked = 0
        """The number of the latest thread or process, when they were last stopped and when that was asked for."""
        self._asked_at = self._own_time = 0
        self._thawed_at = time.monotonic_ns()

    def thawed(self) -> None:
        if not self._counts:
            return
        self._thaw_wait = thread_times()[1] - self._own_wait
        self._thawed_at = time.monotonic_ns()

    def asked(self) -> None:
        """To stop them, which takes some time: what they run until then is counted. Those that are new since the last stop count whole."""
        if self._counts:
            self._asked_at = time.monotonic_ns()
            self._when_asked = {process: process_time(process) for process in {self._first, *self._totals}}
            self._last_when_asked = self._last_number()

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

    def stopped(self, spent: CoreTime, processes: Iterable[int]) -> CoreTime:
        """What was seen before they were stopped, with what is known now that they are. Nobody counts what a process ran that has ended: where
        one may have, it was all the time in which the first thread was not on a core."""
        if not self._counts:
            return spent
        stopped_at, processes = time.monotonic_ns(), list(processes)
        before, self._totals = self._totals, {process: process_time(process) for process in processes}
        last, self._last = self._last, self._last_number()
        others, stopping = (_more(earlier, self._totals) for earlier in (before, self._when_asked))
        others -= spent.ran
        if self._are_gone(before, last):
            others = max(others, stopped_at - self._thawed_at - spent.ran)
        if self._are_gone({process: ran for process, ran in self._when_asked.items() if ran}, self._last_when_asked):
            stopping = max(stopping, stopped_at - self._asked_at)
        self._thawed_at = stopped_at  # who is still inside the kernel is asked again
        own, self._own_time = time.process_time_ns() - self._own_time, time.process_time_ns()
        return replace(
            spent,
            others=max(0, others),
            asked_at=self._asked_at,
            stopping=stopping,
            stopped_at=stopped_at,
            supervised=own,
        )

    def _are_gone(self, before: Iterable[int], last: int) -> bool:
        """Whether a process has ended of those `before`, or a thread or process that began since the `last` number was given."""
        if any(process not in self._totals for process in before):
            return True
        if self._last == last:
            return False
        begun = sum(number > last for number, _ in threads.folders(self._totals))
        return begun != self._last - last

    def _last_number(self) -> int:
        """The latest number of a thread or process that was given in the caller's name space; 0 where nobody tells."""
        try:
            return int(threads.read("/proc/loadavg").split()[-1]) if self._own_numbers else 0
        except (ValueError, IndexError):
            return 0

    def at_rest(self, processes: Sequence[int], seen: dict[int, Thread] | None = None) -> Mapping[int, Thread]:
        """They are stopped: count from here, or from what was seen of them. The freezer does not wait for a process that has nearly ended,
        nor for the parent to whom that is told; so two looks must agree, and show nobody on a core, whose time would not be up to date. Returns them;
        none where nobody counts."""
        if not self._counts:
            return {}
        self._before = threads.look(processes) if seen is None else seen
        for _ in range(_LOOKS if seen is None else 0):
            before, self._before = self._before, threads.look(processes)
            if before == self._before and not any(thread.state == _RUNNING for thread in before.values()):
                break
            time.sleep(_LOOK_AGAIN_S)
        self._own_wait, self._thaw_wait = thread_times()[1], 0
        return self._before

    def still(self, processes: Iterable[int]) -> bool:
        """Whether no thread ran since: the same threads, apart from ended ones, and none of them was on a core for longer."""
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


def process_time(process: int) -> int:
    """Nanoseconds that all threads of a process were on a core, ended ones included; 0 where it is gone."""
    try:
        return time.clock_gettime_ns((~process << 3) | _SCHEDULED)
    except OSError:
        return 0


def _more(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    """What all processes ran since; one that has ended makes it no less."""
    return sum(max(0, ran - before.get(process, 0)) for process, ran in now.items())


def _times(processes: Iterable[int]) -> dict[int, tuple[int, int]]:
    return {number: thread_times(folder) for number, folder in threads.folders(processes)}
