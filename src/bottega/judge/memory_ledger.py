"""The ledger of a device's memory, across processes: who has claimed how much, and who waits for it.

It is one file of slots. Whoever has a slot holds a lock on a byte of its own through a descriptor of its own (an open file description
lock), so the claim of a killed process is gone with it, wherever it was killed; what such a process wrote is not believed. Nobody waits
for a claim while it holds another one or the device's lease: that is all that keeps waiting free of deadlocks.
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
from bottega.judge.lease import device_name, lease_folder
from bottega.judge.memory_need import gigabytes
from bottega.judge.memory_rules import (
    GIVE_WAY_SECONDS,
    RESERVE_BYTES,
    LedgerEntry,
    LedgerState,
    is_hindered,
    is_passed_over,
    may_have,
    shortage,
    wanted_of_others,
)
from bottega.judge.nvml import gpu_memory, gpu_processes

SLOTS = 256
POLL_SECONDS = 0.03
WORD_SECONDS = 10.0
"""After so long in a strangers' way a word is said about it."""
STRANGER_SECONDS = 120.0
"""After so long no verdict is given."""
REMEMBERED_SECONDS = 20.0
"""How long strangers are believed to hold what they held when nobody had a claim. A claim that is not used yet hides them."""

_HEAD = struct.Struct("<QQd")
"""The next ticket, bytes of strangers when they could last be seen alone, and when that was."""
_SLOT = struct.Struct("<BBBxIQQd48s")
_FLOCK = struct.Struct("hhqqi4x")
_MUTEX = 1 << 40
"""Locks lie beyond the end of the file: the kernel does not mind."""
_STATES = {1: "waiting", 2: "held"}


class GpuProbe(Protocol):
    """What the ledger asks of a device."""

    def memory(self) -> tuple[int, int] | None:
        """Bytes that it has, and those that are not free; None where nobody can tell."""
        ...

    def holders(self) -> str:
        """Who holds the most, in words; empty where nobody can tell."""
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
    def __init__(self, device: str, card: GpuProbe | None = None):
        """`device` is `cuda` or `cuda:N`. May be used from any thread and process."""
        self.device = device
        self.card: GpuProbe = card or NvmlProbe(int(device.partition(":")[2] or 0))
        self.path = lease_folder() / f"{device_name(device)}.memory"

    @property
    def total(self) -> int:
        """Bytes that the card has; 0 where nobody can tell, and then everything is granted."""
        return (self.card.memory() or (0, 0))[0]

    def claim(
        self,
        size: int,
        name: str,
        *,
        whole: bool = False,
        lasting: bool = False,
        give_way: Callable[[int], None] = lambda size: None,
        say: Callable[[str], None] = lambda line: None,
        given_up: Callable[[], bool] = lambda: False,
        patience: float = STRANGER_SECONDS,
    ) -> LedgerClaim:
        """Wait until there is room, then have it. `give_way` is asked while there is none, with the bytes that are missing: let it close
        what the caller itself can do without. `whole` waits until all claims but lasting ones are gone, and takes what is there.

        Raises `JudgeError` when strangers do not make room for `patience` seconds, and when `given_up` says so.
        """
        begun, total = time.monotonic(), self.total
        if total and not whole and size > total - RESERVE_BYTES:
            raise JudgeError(f"{name}: needs about {gigabytes(size)} GB on {self.device}, which has {gigabytes(total)}")
        claim = self._queued(total if whole else size, name, whole, lasting)
        hindered_since: float | None = None
        told = False
        try:
            while True:
                with self._locked() as table:
                    state = table.state()
                    me = claim.entry
                    hindered = is_hindered(state, me)
                    missing = shortage(state, me)
                    hindered_since = (hindered_since or state.now) if hindered else None
                    long = state.now - (hindered_since or state.now)
                    settled = whole and not missing and long > GIVE_WAY_SECONDS and not is_passed_over(state, me)
                    if not state.total or may_have(state, me) or settled:
                        claim.room = state.best_room(me) if whole else state.room(me)
                        claim._set(table, replace(me, state="held"))
                        claim.waited = time.monotonic() - begun
                        return claim
                if given_up():
                    raise JudgeError("this judge was closed")
                if hindered and not whole:
                    words = self._in_the_way(state, me)
                    if long > patience:
                        raise JudgeError(f"{name}: {words}; end them, or use another device")
                    if long > WORD_SECONDS and not told:
                        told = True
                        say(f"{name} waits: {words}")
                give_way(missing)
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
        """Bytes that the oldest one wants who has waited for so long; 0 where nobody has."""
        state = self.state()
        return next((entry.size for entry in state.waiting if state.now - entry.since >= seconds), 0)

    def missing(self) -> int:
        """Bytes that have to be given back before the first of the queue is served; 0 where nobody waits for that."""
        return wanted_of_others(self.state())

    def state(self) -> LedgerState:
        with self._locked() as table:
            return table.state()

    def _queued(self, size: int, name: str, whole: bool, lasting: bool) -> LedgerClaim:
        with self._locked() as table:
            me = table.next_entry(size, name)
            if me is None:
                raise JudgeError(f"{self.device}: {SLOTS} claims of memory are open; end some of the processes that judge here")
            return self._taken(table, replace(me, whole=whole, lasting=lasting))

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

    def _in_the_way(self, state: LedgerState, me: LedgerEntry) -> str:
        """Who holds what `me` needs."""
        lasting = [
            f"{entry.name} {gigabytes(entry.size)} GB" for entry in state.held if entry.lasting and entry.slot != me.slot
        ]
        if state.strangers > RESERVE_BYTES:
            who = self.card.holders()
            lasting.append(f"programs that claim nothing {gigabytes(state.strangers)} GB{f' ({who})' if who else ''}")
        card = gigabytes(state.total)
        return f"needs about {gigabytes(me.size)} GB of the {card} GB on {self.device}, and others hold: {', '.join(lasting)}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[_Table]:
        descriptor = self._open()
        try:
            _lock(descriptor, fcntl.F_OFD_SETLKW, _MUTEX)
            yield _Table(descriptor, self.card)
        finally:
            _unlock(descriptor, _MUTEX)
            os.close(descriptor)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class _Table:
    """The file, while its mutex is held."""

    def __init__(self, descriptor: int, card: GpuProbe):
        self.descriptor = descriptor
        self.card = card

    def state(self) -> LedgerState:
        entries = tuple(self.entries())
        total, used = self.card.memory() or (0, 0)
        return LedgerState(entries, total, self._strangers(entries, used), time.monotonic())

    def entries(self) -> Iterator[LedgerEntry]:
        """Those whose owner lives."""
        written = os.pread(self.descriptor, SLOTS * _SLOT.size, _HEAD.size)
        for slot in range(len(written) // _SLOT.size):
            state, whole, lasting, process, size, ticket, since, name = _SLOT.unpack_from(written, slot * _SLOT.size)
            if state in _STATES and self._is_owned(slot):
                text = name.rstrip(b"\0").decode(errors="replace")
                yield LedgerEntry(slot, _STATES[state], size, ticket, since, bool(whole), bool(lasting), text, process)  # type: ignore[arg-type]

    def next_entry(self, size: int, name: str) -> LedgerEntry | None:
        """A free slot and the next ticket, not written yet."""
        slot = next((number for number in range(SLOTS) if not self._is_owned(number)), None)
        if slot is None:
            return None
        ticket, strangers, seen = self._head()
        os.pwrite(self.descriptor, _HEAD.pack(ticket + 1, strangers, seen), 0)
        return LedgerEntry(slot, "waiting", max(0, size), ticket, time.monotonic(), name=name, process=os.getpid())

    def write(self, entry: LedgerEntry) -> None:
        state = {"waiting": 1, "held": 2}[entry.state]
        name = entry.name.encode()[:48]
        packed = _SLOT.pack(state, entry.whole, entry.lasting, entry.process, entry.size, entry.ticket, entry.since, name)
        os.pwrite(self.descriptor, packed, _HEAD.size + entry.slot * _SLOT.size)

    def _strangers(self, entries: tuple[LedgerEntry, ...], used: int) -> int:
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


def claim(device: str, size: int, name: str, *, lasting: bool = True) -> LedgerClaim:
    """For whoever shares a device with the judge, such as a model in memory: a context manager whose `resize` follows what is held.

    Not while the device's lease is held, and not beside another claim.
    """
    return MemoryLedger(device).claim(size, name, lasting=lasting)


def waiting(device: str) -> int:
    """Bytes that the oldest one in the queue wants, or 0: whoever can hand memory back does so then."""
    return MemoryLedger(device).waiting()
