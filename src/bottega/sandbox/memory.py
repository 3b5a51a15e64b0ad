"""How much memory a process tree holds. Forked processes share pages and each counts them as its own, and the exact sum is
expensive to read: so a cheap upper bound comes first, and exact shares are read only above the limit, a few at a time, and remembered.

What lies in pipes and sockets belongs to no process; of these the most that they could hold is counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_KIB = 1024
MOST_DESCRIPTORS = 20_000
"""Of the whole tree. Honest programs have hundreds, and memory could be hidden behind more than can be checked."""
_PIPE = 64 << 10
"""What a pipe holds. Larger ones take from 64 MiB that the kernel grants a user, and a user who has used that up gets two pages a pipe."""
_READING_S = 0.03
"""Spent on exact shares in one check: the supervisor has commands to serve."""
_FRESH_S = 1.0
_MAPPING, _MOST_MAPPINGS = 512, 65_530
"""Bytes of the kernel's for each mapping, and how many a process may have (`vm.max_map_count`): a gigabyte in thirty processes."""
_MAPS_READ = 4 << 20
_DATAGRAMS = 11
"""That may wait at one socket (`net.unix.max_dgram_qlen` and one more)."""
File = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True)
class _Share:
    resident: int
    exact: int
    mappings: int
    """Bytes that the kernel takes to list them."""
    read_at: float


class TooManyDescriptors(Exception):
    """More than `MOST_DESCRIPTORS`."""


class MemoryWatch:
    def __init__(self, limit: int, mounts: Sequence[str], lent: frozenset[File]) -> None:
        """`mounts`: memory file systems of the sandbox; `lent`: memory files of the caller, which do not count."""
        self._limit = limit
        self._mounts = tuple(mounts)
        self._devices = {os.stat(mount).st_dev for mount in mounts}
        self._lent = lent
        self._inherited = sum(_resident(os.getpid()))
        self._shares: dict[int, _Share] = {}

    def excess(self, processes: Sequence[int]) -> int | None:
        """The bytes in use if they exceed the limit. Raises `TooManyDescriptors` when they cannot be known."""
        in_files, counted = self._in_files(processes)
        resident = {pid: _resident(pid) for pid in processes}
        most = sum(anonymous + shared for anonymous, shared in resident.values()) + len(resident) * _MAPPING * _MOST_MAPPINGS
        if in_files + most <= self._limit:
            return None
        self._shares = {pid: share for pid, share in self._shares.items() if pid in resident}
        now = time.monotonic()
        for pid in sorted(processes, key=lambda pid: self._shares[pid].read_at if pid in self._shares else 0.0):
            known = self._shares.get(pid)
            if time.monotonic() > now + _READING_S or (known and known.read_at > now - _FRESH_S):
                break
            self._read(pid, resident[pid], counted)
        if in_files + self._estimate(resident) <= self._limit:
            return None
        for pid, share in list(self._shares.items()):  # what was touched since may be lent or shared
            if sum(resident[pid]) > share.resident:
                self._read(pid, resident[pid], counted)
        used = in_files + self._estimate(resident)
        return used if used > self._limit else None

    def held(self, processes: Sequence[int]) -> int:
        """At most so many bytes are in use, what is shared included."""
        return self._in_files(processes)[0] + sum(sum(_resident(pid)) for pid in processes)

    def _in_files(self, processes: Sequence[int]) -> tuple[int, frozenset[File]]:
        """Bytes in files in memory, pipes and sockets, and which files were counted."""
        held = _behind_descriptors(processes, self._lent)
        in_files = held.bytes + _in_sockets(held.sockets if not self._mounts else _own_sockets())
        for mount in self._mounts:
            space = os.statvfs(mount)
            in_files += (space.f_blocks - space.f_bfree) * space.f_frsize
        return in_files, held.files

    def _estimate(self, resident: dict[int, tuple[int, int]]) -> int:
        """Exact shares, plus growth since they were read. What is not read yet shares what it inherited from the fork server, and may
        have been forked with as many mappings as anyone has."""
        total, mappings = 0, max((share.mappings for share in self._shares.values()), default=0)
        for pid, parts in resident.items():
            share = self._shares.get(pid)
            if share is None:
                total += max(0, parts[0] - self._inherited) + mappings
            else:
                total += share.exact + share.mappings + max(0, sum(parts) - share.resident)
        return total

    def _read(self, pid: int, resident: tuple[int, int], counted: frozenset[File]) -> None:
        shared = resident[1]
        exact = _tables(pid) + (_share_by_mapping(pid, self._lent | counted, self._devices) if shared else _share(pid))
        self._shares[pid] = _Share(sum(resident), exact, _mappings(pid), time.monotonic())


def _lines(path: str) -> Iterable[bytes]:
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError:
        return


def _resident(pid: int) -> tuple[int, int]:
    """Anonymous memory with the tables that map it, and shared memory; without mapped files, which the kernel can drop."""
    anonymous = shared = 0
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith((b"RssAnon:", b"VmSwap:", b"VmPTE:")):
            anonymous += int(line.split()[1]) * _KIB
        elif line.startswith(b"RssShmem:"):
            shared = int(line.split()[1]) * _KIB
    return anonymous, shared


@dataclass(frozen=True)
class _Held:
    bytes: int
    """In anonymous memory files, which need no mapping to hold memory, and in pipes."""
    files: frozenset[File]
    sockets: int


def _behind_descriptors(processes: Sequence[int], lent: frozenset[File]) -> _Held:
    total, seen, others, left = 0, set[File](), set[str](), MOST_DESCRIPTORS
    for pid in processes:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        left -= len(names)
        if left < 0:
            raise TooManyDescriptors
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
                if target.startswith(("pipe:", "socket:")):
                    others.add(target)
                if not target.startswith("/memfd:"):
                    continue
                status = os.stat(f"{folder}/{name}")
            except OSError:
                continue
            file = (status.st_dev, status.st_ino)
            if file not in lent and file not in seen:
                seen.add(file)
                total += status.st_blocks * 512
    pipes = sum(target.startswith("pipe:") for target in others)
    return _Held(total + pipes * _PIPE, frozenset(seen), len(others) - pipes)


def _own_sockets() -> int:
    """All of the sandbox's network name space: also those that wait to be accepted, which no process has a descriptor of. Datagrams of many
    senders queue at one socket, so that one counts for as many."""
    found = 0
    for line in _lines("/proc/self/net/unix"):
        fields = line.split(maxsplit=5)
        found += _DATAGRAMS if len(fields) > 4 and fields[4] == b"0002" else 1
    return max(0, found - 1)  # a headline


def _in_sockets(count: int) -> int:
    """What a sender may have under way is bounded by its own buffer, which it may set to twice this."""
    return count * 2 * int(next(iter(_lines("/proc/sys/net/core/wmem_max")), b"212992"))


def _tables(pid: int) -> int:
    return sum(int(line.split()[1]) * _KIB for line in _lines(f"/proc/{pid}/status") if line.startswith(b"VmPTE:"))


def _mappings(pid: int) -> int:
    """What the kernel takes for the mappings of a process. A list too long to be read counts as full."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            text = file.read(_MAPS_READ)
    except OSError:
        return 0
    return _MAPPING * (text.count(b"\n") if len(text) < _MAPS_READ else _MOST_MAPPINGS)


def _share(pid: int) -> int:
    """Each page counted in proportion to how many processes share it."""
    return sum(
        int(line.split()[1]) * _KIB
        for line in _lines(f"/proc/{pid}/smaps_rollup")
        if line.startswith((b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    )


def _share_by_mapping(pid: int, known_files: frozenset[File], known_devices: set[int]) -> int:
    """The same, leaving out files that were counted elsewhere or belong to the caller."""
    total, in_memory = 0, True
    for line in _lines(f"/proc/{pid}/smaps"):
        fields = line.split(maxsplit=5)
        if not fields[0].endswith(b":"):
            major, _, minor = fields[3].partition(b":")
            device, inode = os.makedev(int(major, 16), int(minor, 16)), int(fields[4])
            name = fields[5] if len(fields) > 5 else b""
            on_disk = inode != 0 and not name.startswith((b"/dev/zero", b"/memfd:", b"/SYSV"))
            known = (device, inode) in known_files or device in known_devices
            in_memory = not on_disk and not known
        elif line.startswith(b"Pss:" if in_memory else b"Anonymous:"):  # private copies of a file's pages always count
            total += int(fields[1]) * _KIB
    return total
