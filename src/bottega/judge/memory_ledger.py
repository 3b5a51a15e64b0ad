"""The ledger of a device's memory, across processes: who has claimed how much, and who waits for it.

It is one file of slots. The owner of a slot holds a lock on a byte of its own through a descriptor of its own (an open file description lock),
so the claim of a killed process ends with it; what such a process wrote is ignored. No process waits for a claim while it holds another one or
the device's lease: that keeps waiting free of deadlocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from bottega.core.errors import JudgeError
from bottega.judge.device_lock import device_name, lease_folder
from bottega.judge.memory_need import gigabytes
from bottega.judge.memory_rules import (
    RESERVE_BYTES,
    WHOLE_WAIT_SECONDS,
    LedgerEntry,
    LedgerState,
    bytes_to_free,
    can_grant,
    is_blocked,
    must_yield,
    shortage,
)
from bottega.judge.nvml import gpu_memory, gpu_processes

SLOTS = 256
POLL_SECONDS = 0.03
WARN_SECONDS = 10.0
"""After so long of waiting for other processes a warning is given."""
FOREIGN_WAIT_SECONDS = 120.0
"""After so long no verdict is given."""
REMEMBERED_SECONDS = 20.0
"""How long other processes are believed to hold what they held when nobody had a claim. A claim that is not used yet hides them."""

_HEAD = struct.Struct("<QQd")
"""The next ticket, bytes of other processes when they could last be seen alone, and when that was."""
_SLOT = struct.Struct("<BBBxIQQd48s")
_FLOCK = struct.Struct("hhqqi4x")
_MUTEX = 1 << 40
"""Locks lie beyond the end of the file: the kernel does not mind."""
_STATES = {1: "waiting", 2: "held"}


class GpuProbe(Protocol):
    """What the ledger asks of a device."""

    def memory(self) -> tuple[int, int] | None:
        """Bytes that it has, and those that are not free; None where it is unknown."""
        ...

    def holders(self) -> str:
        """Who holds the most, in words; empty where it is unknown."""
        ...


@dataclass(frozen=True)
class NvmlProbe:
    index: int

    def memory(self) -> tuple[int, int] | None:
        return gpu_memory(self.index)

    def holders(self) -> str:
        return ", ".join(f"process {pid} {gigabytes(size)} GB" for pid, size in gpu_processes(self.index)[:3])


class LedgerClaim:
    """Memory that is ours until `release`, or until this process ends."""

    def __init__(self, ledger: MemoryLedger, descriptor: int, entry: LedgerEntry):
        self.ledger = ledger
        self.entry = entry
        self.room = 0
        """What could be had when it was granted."""
        self.waited = 0.0
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        return self.entry.size

    def __enter__(self) -> LedgerClaim:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()

    def resize(self, size: int) -> bool:
        """Less is always given back. More is had only where it is free and nobody waits; otherwise nothing changes, and nobody waits here,
        since whoever holds a claim must not."""
        with self.ledger._locked() as table:
            state = table.state()
            wanted = replace(self.entry, size=size)
            if size > self.size and (state.waiting or shortage(state, wanted)):
                return False
            self._set(table, wanted)
            return True

    def correct(self, size: int) -> None:
        """Say what was really taken, whether or not it fits."""
        with self.ledger._locked() as table:
            self._set(table, replace(self.entry, size=size))

    def release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            _unlock(descriptor, _MUTEX + 1 + self.entry.slot)  # from here on what is written there no longer counts
            os.close(descriptor)

    def _set(self, table: _Table, entry: LedgerEntry) -> None:
        if self._descriptor >= 0:
            table.write(entry)
            self.entry = entry


class MemoryLedger:
    def __init__(self, device: str, gpu: GpuProbe | None = None):
        """`device` is `cuda` or `cuda:N`. May be used from any thread and process."""
        self.device = device
        self.gpu: GpuProbe = gpu or NvmlProbe(int(device.partition(":")[2] or 0))
        self.path = lease_folder() / f"{device_name(device)}.memory"

    @property
    def total(self) -> int:
        """Bytes that the GPU has; 0 where it is unknown, and then everything is granted."""
        return (self.gpu.memory() or (0, 0))[0]

    def claim(
        self,
        size: int,
        name: str,
        *,
        whole: bool = False,
        persistent: bool = False,
        free_memory: Callable[[int], None] = lambda size: None,
        warn: Callable[[str], None] = lambda line: None,
        cancelled: Callable[[], bool] = lambda: False,
        while_waiting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        patience: float = FOREIGN_WAIT_SECONDS,
    ) -> LedgerClaim:
        """Wait until there is room, then have it. `free_memory` is asked while there is none, with the bytes that are missing: let it close
        what the caller itself can do without. That and the rest of the wait happen within `while_waiting`. `whole` waits until all claims but
        persistent ones are gone, and takes what is there.

        Raises `JudgeError` when other processes do not make room for `patience` seconds, and when `cancelled` says so.
        """
        begun, total = time.monotonic(), self.total
        if total and not whole and size > total - RESERVE_BYTES:
            raise JudgeError(f"{name}: needs about {gigabytes(size)} GB on {self.device}, which has {gigabytes(total)}")
        claim = self._queued(total if whole else size, name, whole, persistent)
        blocked_since: float | None = None
        told = False
        try:
            while True:
                with self._locked() as table:
                    state = table.state()
                    me = claim.entry
                    blocked = is_blocked(state, me)
                    missing = shortage(state, me)
                    blocked_since = (blocked_since or state.now) if blocked else None
                    long = state.now - (blocked_since or state.now)
                    settled = whole and not missing and long > WHOLE_WAIT_SECONDS and not must_yield(state, me)
                    if not state.total or can_grant(state, me) or settled:
                        claim.room = state.best_room(me) if whole else state.room(me)
                        claim._set(table, replace(me, state="held"))
                        claim.waited = time.monotonic() - begun
                        return claim
                if cancelled():
                    raise JudgeError("this judge was closed")
                if blocked and not whole:
                    words = self._blockers(state, me)
                    if long > patience:
                        raise JudgeError(f"{name}: {words}; end them, or use another device")
                    if long > WARN_SECONDS and not told:
                        told = True
                        warn(f"{name} waits: {words}")
                with while_waiting():
                    free_memory(missing)
                    time.sleep(POLL_SECONDS)
        except BaseException:
            claim.release()
            raise

    def try_claim(self, size: int, name: str) -> LedgerClaim | None:
        """Have it at once or not at all; nothing while anybody waits."""
        with self._locked() as table:
            state = table.state()
            me = table.next_entry(size, name)
            if me is None or state.waiting or (state.total and shortage(state, me)):
                return None
            return self._taken(table, replace(me, state="held"))

    def waiting(self, seconds: float = 0.0) -> int:
        """Bytes of the oldest request that has waited for so long; 0 where there is none."""
        state = self.state()
        return next((entry.size for entry in state.waiting if state.now - entry.since >= seconds), 0)

    def missing(self) -> int:
        """Bytes that have to be given back before the first of the queue is served; 0 where nobody waits for that."""
        return bytes_to_free(self.state())

    def state(self) -> LedgerState:
        with self._locked() as table:
            return table.state()

    def _queued(self, size: int, name: str, whole: bool, persistent: bool) -> LedgerClaim:
        with self._locked() as table:
            me = table.next_entry(size, name)
            if me is None:
                raise JudgeError(f"{self.device}: {SLOTS} claims of memory are open; end some of the processes that judge here")
            return self._taken(table, replace(me, whole=whole, persistent=persistent))

    def _taken(self, table: _Table, entry: LedgerEntry) -> LedgerClaim:
        descriptor = self._open()
        try:
            if not _lock(descriptor, fcntl.F_OFD_SETLK, _MUTEX + 1 + entry.slot):
                raise JudgeError(f"{self.path}: a slot was taken twice; remove the file while nothing is judged")
            table.write(entry)
        except BaseException:
            os.close(descriptor)
            raise
        return LedgerClaim(self, descriptor, entry)

    def _blockers(self, state: LedgerState, me: LedgerEntry) -> str:
        """Who holds what `me` needs."""
        persistent = [
            f"{entry.name} {gigabytes(entry.size)} GB" for entry in state.held if entry.persistent and entry.slot != me.slot
        ]
        if state.foreign_bytes > RESERVE_BYTES:
            who = self.gpu.holders()
            persistent.append(f"programs that claim nothing {gigabytes(state.foreign_bytes)} GB{f' ({who})' if who else ''}")
        size = gigabytes(state.total)
        return (
            f"needs about {gigabytes(me.size)} GB of the {size} GB on {self.device}, and others hold: {', '.join(persistent)}"
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[_Table]:
        descriptor = self._open()
        try:
            _lock(descriptor, fcntl.F_OFD_SETLKW, _MUTEX)
            yield _Table(descriptor, self.gpu)
        finally:
            _unlock(descriptor, _MUTEX)
            os.close(descriptor)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class _Table:
    """The file, while its mutex is held."""

    def __init__(self, descriptor: int, gpu: GpuProbe):
        self.descriptor = descriptor
        self.gpu = gpu

    def state(self) -> LedgerState:
        entries = tuple(self.entries())
        total, used = self.gpu.memory() or (0, 0)
        return LedgerState(entries, total, self._foreign_bytes(entries, used), time.monotonic())

    def entries(self) -> Iterator[LedgerEntry]:
        """Those whose owner lives."""
        written = os.pread(self.descriptor, SLOTS * _SLOT.size, _HEAD.size)
        for slot in range(len(written) // _SLOT.size):
            state, whole, persistent, process, size, ticket, since, name = _SLOT.unpack_from(written, slot * _SLOT.size)
            if state in _STATES and self._is_owned(slot):
                text = name.rstrip(b"\0").decode(errors="replace")
                yield LedgerEntry(slot, _STATES[state], size, ticket, since, bool(whole), bool(persistent), text, process)  # type: ignore[arg-type]

    def next_entry(self, size: int, name: str) -> LedgerEntry | None:
        """A free slot and the next ticket, not written yet."""
        slot = next((number for number in range(SLOTS) if not self._is_owned(number)), None)
        if slot is None:
            return None
        ticket, foreign_bytes, seen = self._head()
        os.pwrite(self.descriptor, _HEAD.pack(ticket + 1, foreign_bytes, seen), 0)
        return LedgerEntry(slot, "waiting", max(0, size), ticket, time.monotonic(), name=name, process=os.getpid())

    def write(self, entry: LedgerEntry) -> None:
        state = {"waiting": 1, "held": 2}[entry.state]
        name = entry.name.encode()[:48]
        packed = _SLOT.pack(state, entry.whole, entry.persistent, entry.process, entry.size, entry.ticket, entry.since, name)
        os.pwrite(self.descriptor, packed, _HEAD.size + entry.slot * _SLOT.size)

    def _foreign_bytes(self, entries: tuple[LedgerEntry, ...], used: int) -> int:
        """What is taken and not claimed. Claims that are not used yet hide some of it, so what was seen last without any claim is believed
        for a while: long enough for a task to be opened."""
        held = sum(entry.size for entry in entries if entry.state == "held")
        ticket, before, seen = self._head()
        now = time.monotonic()
        if not held:
            os.pwrite(self.descriptor, _HEAD.pack(ticket, used, now), 0)
            return used
        remembered = before if 0 <= now - seen < REMEMBERED_SECONDS else 0
        return max(used - held, min(remembered, used), 0)

    def _head(self) -> tuple[int, int, float]:
        written = os.pread(self.descriptor, _HEAD.size, 0)
        return _HEAD.unpack(written) if len(written) == _HEAD.size else (1, 0, 0.0)  # type: ignore[return-value]

    def _is_owned(self, slot: int) -> bool:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _MUTEX + 1 + slot, 1, 0)
        return bool(_FLOCK.unpack(fcntl.fcntl(self.descriptor, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)


def _lock(descriptor: int, how: int, place: int) -> bool:
    try:
        fcntl.fcntl(descriptor, how, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int, place: int) -> None:
    """Closing does it too, unless another thread has just forked: its child would go on holding the lock."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, place, 1, 0))


def claim(device: str, size: int, name: str, *, persistent: bool = True) -> LedgerClaim:
    """For processes that share a device with the judge, such as a model in memory: a context manager whose `resize` follows what is held.

    Not while the device's lease is held, and not beside another claim.
    """
    return MemoryLedger(device).claim(size, name, persistent=persistent)
