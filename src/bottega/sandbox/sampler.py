"""Who does the CPU work: the kernel samples the instruction pointer of every thread of a tree, and the mapped files are named.

Opened by the warden on its inmate, so that no code of the inmate can see, stop or forge it.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import mmap
import os
import struct
from collections import Counter
from typing import Any

from bottega.sandbox import linux

_SOFTWARE, _TASK_CLOCK = 1, 1
_PERIOD_NS = 251_000  # about a quarter of a millisecond, and no divisor of anybody's own millisecond
_ADDRESS_AND_TASK = 1 | 2
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_ATTRIBUTES_SIZE = 112
_ENABLE, _DISABLE = 0x2400, 0x2401
_RING_PAGES = 16
_HEAD_AT, _TAIL_AT = 1024, 1032
_RECORD_LOST, _RECORD_SAMPLE = 2, 9
_FILES_NAMED = 400
_PROCESSES_RESOLVED = 64
_MAPS_READ = 4 << 20
"""Bytes of one process's list of mappings, of which it may have tens of thousands with long names."""


class _Ring:
    def __init__(self, pid: int, cpu: int) -> None:
        flags = _DISABLED | _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
        head = struct.pack("=IIQQQQQ", _SOFTWARE, _ATTRIBUTES_SIZE, _TASK_CLOCK, _PERIOD_NS, _ADDRESS_AND_TASK, 0, flags)
        self.descriptor = linux.open_perf_event(head.ljust(_ATTRIBUTES_SIZE, b"\0"), pid, cpu)
        self.size = _RING_PAGES * mmap.PAGESIZE
        try:
            self.memory = mmap.mmap(self.descriptor, self.size + mmap.PAGESIZE)
        except OSError:
            os.close(self.descriptor)
            raise

    def records(self) -> bytes:
        """Take all records that have come in."""
        head, tail = struct.unpack_from("=QQ", self.memory, _HEAD_AT)
        start, end = tail % self.size, head % self.size
        data = mmap.PAGESIZE
        if head == tail:
            return b""
        if start < end:
            taken = self.memory[data + start : data + end]
        else:
            taken = self.memory[data + start : data + self.size] + self.memory[data : data + end]
        struct.pack_into("=Q", self.memory, _TAIL_AT, head)
        return taken


class Sampler:
    """Attach to a process before it starts threads or children: they inherit the counters."""

    def __init__(self, pid: int) -> None:
        self.unavailable: str | None = None
        self.running = False
        self._rings: list[_Ring] = []
        self._hits: Counter[tuple[int, int]] = Counter()
        self._maps: dict[int, _Maps] = {}
        self._lost = 0
        for cpu in range(os.cpu_count() or 1):
            try:
                self._rings.append(_Ring(pid, cpu))
            except OSError as error:
                self.unavailable = error.strerror
        if self._rings:  # a processor may be off line
            self.unavailable = None

    def start(self) -> None:
        self._hits.clear()
        self._maps.clear()
        self._lost = 0
        for ring in self._rings:
            ring.records()
            fcntl.ioctl(ring.descriptor, _ENABLE, 0)
        self.running = True

    def count(self, on: bool) -> None:
        """Let the counters run or stand still; what they have seen stays."""
        for ring in self._rings:
            fcntl.ioctl(ring.descriptor, _ENABLE if on else _DISABLE, 0)

    def drain(self) -> None:
        """Take the samples before a ring overflows (more than a second at full load)."""
        for ring in self._rings:
            records, position = ring.records(), 0
            while position + 8 <= len(records):
                kind, _, size = struct.unpack_from("=IHH", records, position)
                if size < 8:
                    break
                if kind == _RECORD_SAMPLE:
                    address, pid, _ = struct.unpack_from("=QII", records, position + 8)
                    self._hits[pid, address] += 1
                    if pid not in self._maps and len(self._maps) < _PROCESSES_RESOLVED:
                        self._maps[pid] = _Maps(pid)  # it may be gone by the end
                elif kind == _RECORD_LOST:
                    self._lost += struct.unpack_from("=QQ", records, position + 8)[1]
                position += size

    def stop(self) -> dict[str, Any]:
        if self.unavailable is not None:
            return {"unavailable": self.unavailable}
        for ring in self._rings:
            fcntl.ioctl(ring.descriptor, _DISABLE, 0)
        self.running = False
        self.drain()
        for pid in self._maps:
            latest = _Maps(pid)
            if latest.starts:
                self._maps[pid] = latest
        by_file: Counter[str] = Counter()
        for (pid, address), count in self._hits.items():
            by_file[self._maps[pid].file_at(address) if pid in self._maps else "[unknown]"] += count
        named = dict(by_file.most_common(_FILES_NAMED))
        samples = sum(by_file.values())
        if samples > sum(named.values()):
            named["[other]"] = samples - sum(named.values())
        code = {path: size for maps in self._maps.values() for path, size in maps.code_bytes().items() if path in named}
        return {"samples": samples, "lost": self._lost, "by_file": named, "code_bytes": code}


class _Maps:
    """The executable mappings of a process as they are now; empty when it is gone."""

    def __init__(self, pid: int) -> None:
        self.starts: list[int] = []
        self._ends: list[int] = []
        self._files: list[str] = []
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file.read(_MAPS_READ).splitlines():
                fields = line.split(maxsplit=5)
                if len(fields) > 1 and "x" in fields[1]:
                    low, _, high = fields[0].partition("-")
                    self.starts.append(int(low, 16))
                    self._ends.append(int(high, 16))
                    self._files.append(fields[5][:300] if len(fields) > 5 else "[anon]")

    def code_bytes(self) -> dict[str, int]:
        """How much executable code of each file is mapped."""
        sizes: Counter[str] = Counter()
        for low, high, path in zip(self.starts, self._ends, self._files):
            sizes[path] += high - low
        return dict(sizes)

    def file_at(self, address: int) -> str:
        index = bisect.bisect_right(self.starts, address) - 1
        return self._files[index] if index >= 0 and address < self._ends[index] else "[unknown]"
