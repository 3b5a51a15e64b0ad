"""Stopping a cell and seeing that it rests: by the kernel's freezer where there is one for us, else by signals.

Both hold on their own. The freezer takes about half of the time, and nothing that happens in the cell can end it. SIGSTOP can be ended by
SIGCONT: so the system-call filter takes away every way to have the kernel send one, and nobody is taken for stopped by less than two looks.
"""

from __future__ import annotations

import signal
import time
from typing import Protocol

from bottega.sandbox import threads
from bottega.sandbox.freezer import Freezer
from bottega.sandbox.threads import Thread
from bottega.sandbox.tree import Tree

PATIENCE_S = 0.25
_LOOK_AGAIN_S = 0.0002
_LOOKS_A_SIGNAL = 10


class Stopper(Protocol):
    name: str
    """For the report."""
    seen: dict[int, Thread] | None
    """The last look at all threads, if stopping took one, and they were at rest."""

    def stop(self) -> bool:
        """True: every thread rests. False: some thread was still inside the kernel when patience ended."""

    def start(self) -> None:
        """Let them run on."""


class ByFreezer:
    name = "freezer"
    seen: dict[int, Thread] | None = None

    def __init__(self, freezer: Freezer) -> None:
        self._freezer = freezer

    def stop(self) -> bool:
        return self._freezer.stop(PATIENCE_S)

    def start(self) -> None:
        self._freezer.start()


class BySignals:
    def __init__(self, tree: Tree, why: str) -> None:
        self.name = f"signals ({why})"
        self.seen: dict[int, Thread] | None = None
        self._tree = tree

    def stop(self) -> bool:
        """One look is not enough: a thread that had not stopped yet when another was looked at may have continued it since. Two looks
        that show everyone at rest, and nobody run in between, leave nobody who could."""
        self.seen = None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._tree.signal(signal.SIGSTOP)
            before: dict[int, Thread] | None = None
            for _ in range(_LOOKS_A_SIGNAL):
                now = _rest(self._tree)
                if now is not None and now == before:
                    self.seen = now
                    return True
                before = now
                if now is None:
                    time.sleep(_LOOK_AGAIN_S)
            if time.monotonic() > deadline:
                return False

    def start(self) -> None:
        self._tree.thaw()


def _rest(tree: Tree) -> dict[int, Thread] | None:
    """Every thread with its times; None when one of them is not at rest."""
    found = threads.look(tree.processes())
    return found if all(thread.state in threads.STOPPED for thread in found.values()) else None
