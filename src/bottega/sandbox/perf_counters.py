"""Hardware counters of a sandbox's threads, by perf events: cycles, instructions, cache references and misses, in user space.

Opened by the supervisor when a profile is asked for, and only then: the threads that are there, and those that they start. A machine without such
counters (most virtual ones), or one that does not let perf be used, counts nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterable, Mapping

from bottega.sandbox import linux

_HARDWARE = 0
EVENTS: Mapping[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache_references": (_HARDWARE, 2),
    "cache_misses": (_HARDWARE, 3),
}
"""Kind and number of each, as the kernel names them."""
MOST_THREADS = 96
"""Each has a descriptor for each event. What has more is not counted."""
_TIMES_ENABLED_AND_RUNNING = 1 | 2
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_ATTRIBUTES_SIZE = 112
_ENABLE, _DISABLE = 0x2400, 0x2401


class PerfCounters:
    def __init__(self, threads: Iterable[int]) -> None:
        self._opened: list[tuple[str, int]] = []
        found = list(threads)
        for name, event in EVENTS.items() if len(found) <= MOST_THREADS else ():
            for thread in found:
                with contextlib.suppress(OSError):  # it has ended, or there is no such counter
                    self._opened.append((name, _open(event, thread)))

    def count(self, on: bool) -> None:
        for _, descriptor in self._opened:
            fcntl.ioctl(descriptor, _ENABLE if on else _DISABLE, 0)

    def stop(self) -> dict[str, int]:
        """Counts by name; only of events that this machine has. Where counters took turns, what they would have counted all the time."""
        found: dict[str, int] = {}
        for name, descriptor in self._opened:
            with contextlib.suppress(OSError, struct.error):
                value, enabled, running = struct.unpack("=QQQ", os.read(descriptor, 24))
                found[name] = found.get(name, 0) + (value * enabled // running if running else 0)
            os.close(descriptor)
        self._opened.clear()
        return found


def _open(event: tuple[int, int], thread: int) -> int:
    kind, number = event
    flags = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    head = struct.pack("=IIQQQQQ", kind, _ATTRIBUTES_SIZE, number, 0, 0, _TIMES_ENABLED_AND_RUNNING, flags)
    on_every_core = -1
    return linux.open_perf_event(head.ljust(_ATTRIBUTES_SIZE, b"\0"), thread, on_every_core)
