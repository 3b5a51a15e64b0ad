"""The threads of a process tree by the operating system's accounting.

A thread's name is untrusted text: `status` is not read at all, and the fields of `stat`
are counted from the last parenthesis, which no name can move.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

STOPPED = frozenset(b"TtZXx")
"""Stopped, stopped by a tracer, or ended."""
ENDED = frozenset(b"ZXx")
_LONGEST = 4096


class Thread(NamedTuple):
    state: int
    """The letter that the kernel shows, as a byte."""
    ran: int
    """Nanoseconds on a core in all its life; 0 where the system does not count."""
    waited: int
    """Nanoseconds ready to run, without a core."""
    turns: int
    """How often it was put on a core."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def look(processes: Iterable[int]) -> dict[int, Thread]:
    """Every thread of these processes; whoever ends meanwhile is left out."""
    found: dict[int, Thread] = {}
    for thread, folder in folders(processes):
        state = read_state(folder)
        if state is not None:
            found[thread] = Thread(state, *read_times(folder))
    return found


def folders(processes: Iterable[int]) -> Iterator[tuple[int, str]]:
    for process in processes:
        try:
            names = os.listdir(f"/proc/{process}/task")
        except OSError:
            continue
        for name in names:
            yield int(name), f"/proc/{process}/task/{name}"


def read_state(folder: str) -> int | None:
    """None: the thread is gone."""
    fields = stat_fields(folder)
    return fields[0][0] if fields else None


def stat_fields(folder: str) -> list[bytes]:
    """What follows the name: state, parent, … Empty when it is gone."""
    return read(f"{folder}/stat").rpartition(b")")[2].split()


def read_times(folder: str) -> tuple[int, int, int]:
    """How long it ran and waited, in nanoseconds, and how often it was put on a core; zeros where nobody counts."""
    try:
        ran, waited, turns = read(f"{folder}/schedstat").split()
        return int(ran), int(waited), int(turns)
    except ValueError:
        return 0, 0, 0


def read(path: str) -> bytes:
    """In three system calls, since a stopped sandbox is checked several times a call. Empty when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
