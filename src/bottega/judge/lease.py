"""One device, one timer: a fair readers-writer lock over files, held by whoever uses the device.

Timing takes it alone; running without timing shares it. It is made of flock, so a killed process lets go of it at
once, and of two files, so that a stream of sharers cannot starve a timer. Others are doors, for processes that come and go.
"""

from __future__ import annotations

import fcntl
import os
import random
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bottega.core.errors import JudgeError

DOORS = 3
"""How many processes may come or go at the same time."""
LONG_SECONDS = 0.03
"""As long as a timer may well wait for one who shares."""
WORD_SECONDS = 60.0
"""Whoever has waited for so long says for whom, and again after as long."""


def lease_folder() -> Path:
    """Where the files of a device's lease and of its memory's ledger lie: ours alone, or else anybody could hold up what we do."""
    folder = Path(tempfile.gettempdir()) / f"bottega-leases-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise JudgeError(f"{folder}: belongs to somebody else; remove it, or set TMPDIR to a folder of your own")
    return folder


def device_name(device: str) -> str:
    """`cuda` and `cuda:0` are one device."""
    return device.replace(":", "-") if ":" in device or device == "cpu" else f"{device}-0"


def open_lease(device: str) -> list[int]:
    """Descriptors of the gate, the room and a door for a device; pass them to `Lease`, in this process or another."""
    folder, name = lease_folder(), device_name(device)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    door = f"door{random.randrange(DOORS)}"
    return [os.open(folder / f"{name}.{part}", flags, 0o600) for part in ("gate", "room", door)]


class Lease:
    def __init__(self, descriptors: list[int]):
        self.gate, self.room, self.door = descriptors
        self._entered = 0.0

    @contextmanager
    def shared(self) -> Iterator[None]:
        self._enter(fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    @contextmanager
    def starting_or_stopping(self) -> Iterator[None]:
        """Shared, by a few at a time. A GPU's driver makes and ends the contexts of processes one after the other, and slows down what
        runs beside; many at once would keep a timer waiting for all of them. Not for whoever shares the lease already."""
        _lock(self.door, fcntl.LOCK_EX)
        try:
            with self.shared():
                yield
        finally:
            fcntl.flock(self.door, fcntl.LOCK_UN)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self._enter(fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    @contextmanager
    def released(self) -> Iterator[None]:
        """For whoever shares it: let go for a while, and share it again afterwards."""
        fcntl.flock(self.room, fcntl.LOCK_UN)
        try:
            yield
        finally:
            self._enter(fcntl.LOCK_SH)

    def enter(self) -> None:
        """Share it until `leave`: for whoever cannot put its work into one block."""
        self._enter(fcntl.LOCK_SH)

    def leave(self) -> None:
        fcntl.flock(self.room, fcntl.LOCK_UN)

    def wanted(self) -> bool:
        """Whether somebody waits at the gate, as a timer does while others share."""
        try:
            fcntl.flock(self.gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.gate, fcntl.LOCK_UN)
        return False

    def yield_to_timer(self) -> None:
        """For whoever shares it: let a timer in that waits, if it was shared for long."""
        if time.monotonic() - self._entered > LONG_SECONDS:
            with self.released():
                pass

    def _enter(self, how: int) -> None:
        _lock(self.gate, fcntl.LOCK_EX)
        try:
            _lock(self.room, how)
        finally:
            fcntl.flock(self.gate, fcntl.LOCK_UN)
        self._entered = time.monotonic()


def _lock(descriptor: int, how: int) -> None:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        pass
    done = threading.Event()
    watch = threading.Thread(target=_complain, args=(descriptor, done), daemon=True)
    watch.start()
    try:
        fcntl.flock(descriptor, how)
    finally:
        done.set()
        watch.join()


def _complain(descriptor: int, done: threading.Event) -> None:
    waited = 0.0
    while not done.wait(WORD_SECONDS):
        waited += WORD_SECONDS
        who = ", ".join(holders(descriptor)) or "a process that cannot be seen from here"
        print(
            f"bottega: has waited {waited:.0f} s for the device, which {who} holds; end it if it hangs",
            file=sys.stderr,
            flush=True,
        )


def holders(descriptor: int) -> list[str]:
    """Which processes hold a lock on this file, as far as the kernel tells us."""
    inode, found = f":{os.fstat(descriptor).st_ino}", []
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    for fields in map(str.split, lines):
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(inode) and int(fields[4]) > 0:
            try:
                name = Path(f"/proc/{fields[4]}/comm").read_text(errors="replace").strip()
            except OSError:
                continue
            found.append(f"process {fields[4]} ({name})")
    return found
