"""The lock on a device: a fair readers-writer lock over files, shared by all processes of a user.

Timing takes it exclusively; running without timing shares it. It uses flock, so that a killed process releases it at once, and three files:

- the device lock, shared or exclusive;
- the timers' lock, shared by timers from when they begin to wait until they are done. Sharers pass it exclusively on their way in. So a stream
  of sharers cannot starve a timer, and timers that wait together follow each other without sharers in between: waiting until the last sharer
  has left the device costs more than timing does;
- the entry lock, at which sharers queue. Timers join the queue when no sharer has got in for a while, so that timers cannot starve sharers.

More files bound how many processes start or end at a time.
"""

from __future__ import annotations

import fcntl
import os
import random
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bottega.core.errors import JudgeError

STARTS = 3
"""How many processes may start or end at the same time."""
MOST_SECONDS_OF_TIMERS = 5.0
"""Timers that arrive while sharers have been kept out for longer than this queue behind them."""
LONG_SECONDS = 0.03
"""As long as a timer may wait for a process that shares the device."""
_ENTERED, _TAKEN = 0, 8
"""Where the entry lock's file says when a sharer last got in, and when anybody last got the device."""
WORD_SECONDS = 10.0
"""A process that has waited for so long, while nobody got in, prints a warning, and again when it has waited for four times as long. On a busy
device, which goes from hand to hand, waiting is no sign that anything hangs."""


def lease_folder() -> Path:
    """The folder of the lock files and of the memory ledger: owned by this user alone, or else anybody could block the judge."""
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
    """Descriptors of a device's lock files; pass them to `Lease`, in this process or another."""
    folder, name = lease_folder(), device_name(device)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    start = f"start{random.randrange(STARTS)}"
    return [os.open(folder / f"{name}.{part}", flags, 0o600) for part in ("entry", "timers", "device", start)]


def private_lease() -> list[int]:
    """Descriptors of a lock that nobody else has: for a process that must not hold the device's own."""
    return [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("entry", "timers", "device", "start")]


class Lease:
    def __init__(self, descriptors: list[int]):
        self.descriptors = descriptors
        self._entry_lock, self._timers_lock, self._device_lock, self._start_lock = descriptors
        self._entered = 0.0
        self._sharing = False
        self.waiting = False
        """Whether it waits for others at this moment."""

    def drop(self) -> None:
        """Let go of every lock that was taken through these descriptors, in whichever process. For a holder that is stopped."""
        for descriptor in self.descriptors:
            _unlock(descriptor)

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _lock(self, descriptor: int, how: int) -> None:
        self.waiting = True
        try:
            _lock(descriptor, how, partial(self._stamped, _TAKEN))
        finally:
            self.waiting = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def starting_or_stopping(self) -> Iterator[None]:
        """Shared, by a few at a time. A GPU's driver makes and ends the contexts of processes one after the other, and slows down what
        runs beside; many at once would keep a timer waiting for all of them. Not for a process that already shares the lease."""
        self._lock(self._start_lock, fcntl.LOCK_EX)
        try:
            with self.shared():
                yield
        finally:
            _unlock(self._start_lock)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self._announce_timer()
        try:
            self._lock(self._device_lock, fcntl.LOCK_EX)
            self._stamp(_TAKEN)
            try:
                yield
            finally:
                _unlock(self._device_lock)
        finally:
            _unlock(self._timers_lock)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release a shared lease for a while, and share it again afterwards."""
        self.leave()
        try:
            yield
        finally:
            self.enter()

    def enter(self) -> None:
        """Share it until `leave`, for work that does not fit into one `with` block."""
        self._lock(self._entry_lock, fcntl.LOCK_EX)
        try:
            self._lock(self._timers_lock, fcntl.LOCK_EX)
            try:
                self._lock(self._device_lock, fcntl.LOCK_SH)
            finally:
                _unlock(self._timers_lock)
            self._stamp(_ENTERED)
            self._stamp(_TAKEN)
        finally:
            _unlock(self._entry_lock)
        self._entered, self._sharing = time.monotonic(), True

    def leave(self) -> None:
        self._sharing = False
        _unlock(self._device_lock)

    def give_way(self, seconds: float) -> None:
        """Share it no longer if it was shared for so long without a pause, though the work goes on. What is held alone is kept."""
        if self._sharing and time.monotonic() - self._entered >= seconds:
            self.leave()

    def wanted(self) -> bool:
        """Whether another process waits for the lease, as a timer does while others share it."""
        try:
            fcntl.flock(self._timers_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        _unlock(self._timers_lock)
        return False

    def yield_to_timer(self, settle: Callable[[], None]) -> None:
        """Let a waiting timer have a shared lease, if it was shared for long. `settle` waits for this process's own work on the device."""
        if time.monotonic() - self._entered > LONG_SECONDS and self.wanted():
            settle()
            with self.released():
                pass

    def _announce_timer(self) -> None:
        """Take the timers' lock: past the sharers that queue, unless they have been kept out for long."""
        if time.monotonic() - self._last_entry() < MOST_SECONDS_OF_TIMERS:
            self._lock(self._timers_lock, fcntl.LOCK_SH)
            return
        self._lock(self._entry_lock, fcntl.LOCK_EX)
        try:
            self._lock(self._timers_lock, fcntl.LOCK_SH)
        finally:
            _unlock(self._entry_lock)

    def _last_entry(self) -> float:
        """When a sharer last got in; 0 when none is known."""
        return self._stamped(_ENTERED)

    def _stamp(self, place: int) -> None:
        os.pwrite(self._entry_lock, struct.pack("d", time.monotonic()), place)

    def _stamped(self, place: int) -> float:
        """By the monotonic clock of this machine."""
        written = os.pread(self._entry_lock, 8, place)
        seconds = struct.unpack("d", written)[0] if len(written) == 8 else 0.0
        return float(seconds) if seconds <= time.monotonic() else 0.0


def _unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock(descriptor: int, how: int, taken: Callable[[], float]) -> None:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        pass
    done = threading.Event()
    watch = threading.Thread(target=_warn_while_waiting, args=(descriptor, done, taken), daemon=True)
    watch.start()
    try:
        fcntl.flock(descriptor, how)
    finally:
        done.set()
        watch.join()


def _warn_while_waiting(descriptor: int, done: threading.Event, taken: Callable[[], float]) -> None:
    begun, due = time.monotonic(), WORD_SECONDS
    while not done.wait(max(0.01, max(begun + due, taken() + WORD_SECONDS) - time.monotonic())):
        waited = time.monotonic() - begun
        if waited < due or time.monotonic() - taken() < WORD_SECONDS:
            continue
        who = ", ".join(holders(descriptor)) or "a process that cannot be seen from here"
        print(
            f"bottega: has waited {waited:.0f} s for the device, which {who} holds; end it if it hangs",
            file=sys.stderr,
            flush=True,
        )
        due = 4 * waited


def holders(descriptor: int) -> list[str]:
    """The processes that hold a lock on this file, as far as the kernel shows them."""
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
