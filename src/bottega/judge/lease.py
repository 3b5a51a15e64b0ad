"""One device, one timer: a fair readers-writer lock over files, held by whoever uses the device.

Timing takes it alone; running without timing shares it. It is made of flock, so a killed process lets go of it at
once, and of two files, so that a stream of sharers cannot starve a timer.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lease(device: str) -> list[int]:
    """Descriptors of the gate and the room for a device; pass them to `Lease`, in this process or another."""
    folder = Path(tempfile.gettempdir()) / f"bottega-leases-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = device.replace(":", "-") if ":" in device or device == "cpu" else f"{device}-0"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return [os.open(folder / f"{name}.{part}", flags, 0o600) for part in ("gate", "room")]


class Lease:
    def __init__(self, descriptors: list[int]):
        self.gate, self.room = descriptors

    @contextmanager
    def shared(self) -> Iterator[None]:
        self._enter(fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self._enter(fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    def _enter(self, how: int) -> None:
        fcntl.flock(self.gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self.room, how)
        finally:
            fcntl.flock(self.gate, fcntl.LOCK_UN)
