"""Time that belongs to the candidate: it stands still while the referee waits for the device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bottega.judge.lease import Lease


class Budget:
    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def deadline(self) -> float:
        return self.end

    @contextmanager
    def sharing(self, lease: Lease) -> Iterator[None]:
        waiting = time.monotonic()
        with lease.shared():
            self.end += time.monotonic() - waiting
            yield

    @contextmanager
    def alone(self, lease: Lease) -> Iterator[None]:
        waiting = time.monotonic()
        with lease.exclusive():
            self.end += time.monotonic() - waiting
            yield


class Stages:
    """Seconds by stage, written where the verdict will carry them."""

    def __init__(self, stages: dict[str, float]):
        self.stages = stages
        self.last = time.monotonic()

    def mark(self, name: str) -> None:
        now = time.monotonic()
        self.stages[name] = round(now - self.last, 4)
        self.last = now
