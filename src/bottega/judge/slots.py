"""How many verdicts are worked on at a time. One that waits for memory of the device gives its slot to others meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    def __init__(self, count: int):
        self.count = count
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, at_once: bool = False) -> Iterator[None]:
        """Have a slot. `at_once`: also where none is free, for one that holds memory which others wait for."""
        with self._changed:
            self._changed.wait_for(lambda: at_once or self._taken < self.count)
            self._taken += 1
        try:
            yield
        finally:
            self._add(-1)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For a thread that has a slot and waits: others may have it. It comes back at once: what it waited for is now held."""
        self._add(-1)
        try:
            yield
        finally:
            self._add(1)

    def _add(self, number: int) -> None:
        with self._changed:
            self._taken += number
            self._changed.notify_all()
