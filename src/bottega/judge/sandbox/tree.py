"""All processes of a cell, to stop, continue and end them together: exactly, where the cell has its own process name space;
by walking the descendants of the warden, where it has not."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Protocol

_AT_REST = frozenset("TtZXx")


class Tree(Protocol):
    def processes(self) -> list[int]:
        """Process ids without the caller's own."""

    def signal(self, number: int) -> None: ...

    def thaw(self) -> None: ...


class NamespaceTree:
    """Seen from the first process of the name space: one call reaches everyone else in it."""

    def processes(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)


class DescendantTree:
    """Seen from a process that adopts orphans (a subreaper): everyone below it."""

    def __init__(self) -> None:
        self._reached: list[int] = []

    def processes(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                fields = _stat_fields(f"/proc/{name}/stat")
                if fields and fields[0] not in "ZXx":
                    children.setdefault(int(fields[1]), []).append(int(name))
        found: list[int] = []
        pending = [os.getpid()]
        while pending:
            below = children.get(pending.pop(), [])
            found += below
            pending += below
        return found

    def signal(self, number: int) -> None:
        """Repeat until nobody new appears: a process may fork while the others are being signalled."""
        reached: set[int] = set()
        for _ in range(50):
            fresh = [pid for pid in self.processes() if pid not in reached]
            if not fresh:
                break
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            reached.update(fresh)
        self._reached = list(reached)

    def thaw(self) -> None:
        for pid in self._reached:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)


def freeze(tree: Tree, patience_s: float = 0.25) -> bool:
    """Stop the tree and see that every thread of it rests. False: some thread was still inside the kernel at the end.

    One look is not enough: a thread that had not stopped yet when another was looked at may have continued it since. Two looks
    that show everyone at rest, and nobody run in between, leave nobody who could.
    """
    deadline = time.monotonic() + patience_s
    while True:
        tree.signal(signal.SIGSTOP)
        before: dict[str, str] | None = None
        for _ in range(10):
            now = _rest(tree)
            if now is not None and now == before:
                return True
            before = now
            if now is None:
                time.sleep(0.0002)
        if time.monotonic() > deadline:
            return False


def _rest(tree: Tree) -> dict[str, str] | None:
    """How often each thread has been switched so far; None when one of them is not at rest."""
    switches: dict[str, str] = {}
    for pid in tree.processes():
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            state = text.partition("State:")[2].lstrip()[:1]
            if state and state not in _AT_REST:
                return None
            switches[thread] = text.partition("voluntary_ctxt_switches:")[2]
    return switches


def end(tree: Tree, patience_s: float = 5.0) -> None:
    """Kill and reap until nobody is left or patience ends."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        tree.signal(signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not tree.processes():
            break
        time.sleep(0.001)


def _stat_fields(path: str) -> list[str]:
    """The fields after the command's name, which may hold anything: state, parent, … Empty when the process is gone."""
    try:
        with open(path, "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []
