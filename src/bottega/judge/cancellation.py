"""Ends one verdict from another thread: what runs for it is killed, and its thread raises `Cancelled` in place of a verdict.

Only processes that serve this verdict alone are killed, so other verdicts of the same judge go on. Waiting for the device or for its memory
is not cut short; it ends by its own limits, and the verdict then ends before anything is run for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bottega.core.errors import JudgeError


class Cancelled(JudgeError):
    """Somebody cancelled this verdict while it was under way."""


class Cancellation:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._kills: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Safe to call often, and from any thread. May take seconds: it waits for processes to end."""
        with self._lock:
            self._cancelled = True
            kills = list(self._kills)
        for kill in kills:
            kill()

    def check(self) -> None:
        if self._cancelled:
            raise Cancelled("the verdict was cancelled while it was under way")

    @contextmanager
    def killing(self, kill: Callable[[], None]) -> Iterator[None]:
        """While inside, `cancel` calls `kill`. Raises `Cancelled` on entry and on leaving where it was cancelled, whatever else happened."""
        self.check()
        with self._lock:
            self._kills.append(kill)
        try:
            if self._cancelled:  # between the check and the list
                kill()
            yield
        finally:
            with self._lock:
                self._kills.remove(kill)
            self.check()
