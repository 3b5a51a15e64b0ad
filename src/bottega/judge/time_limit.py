"""The candidate's time limit: it runs neither while the controller waits for the device nor while it works itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bottega.judge.device_lock import Lease


class TimeBudget:
    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def deadline(self) -> float:
        return self.end

    @contextmanager
    def paused(self, seconds: float) -> Iterator[None]:
        """For what is not the candidate's work, which has so many seconds of its own."""
        left = self.end - time.monotonic()
        self.end = time.monotonic() + seconds
        try:
            yield
        finally:
            self.end = time.monotonic() + left

    @contextmanager
    def sharing(self, lease: Lease) -> Iterator[None]:
        waiting = time.monotonic()
        with lease.shared():
            self.end += time.monotonic() - waiting
            yield

    @contextmanager
    def released(self, lease: Lease) -> Iterator[None]:
        """Inside `sharing`: others may have the device meanwhile. What is done there is the candidate's time; waiting for the device
        again is not."""
        with lease.released():
            yield
            waiting = time.monotonic()
        self.end += time.monotonic() - waiting

    def yield_to_timer(self, lease: Lease, settle: Callable[[], None]) -> None:
        """Inside `sharing`: let a waiting timer have the device."""
        waiting = time.monotonic()
        lease.yield_to_timer(settle)
        self.end += time.monotonic() - waiting

    @contextmanager
    def alone(self, lease: Lease) -> Iterator[None]:
        waiting = time.monotonic()
        with lease.exclusive():
            self.end += time.monotonic() - waiting
            yield


class StageTimes:
    """Seconds by stage, written where the verdict will carry them."""

    def __init__(self, stages: dict[str, float]):
        self.stages = stages
        self.last = time.monotonic()

    def mark(self, name: str) -> None:
        now = time.monotonic()
        self.stages[name] = round(now - self.last, 4)
        self.last = now
