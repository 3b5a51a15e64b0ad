"""Device time by kernel, straight from CUPTI: torch's profiler spends five seconds on its first start, this some milliseconds.

Only fields of a kernel record are read whose offsets have not moved since CUDA 11: times, name, registers, grid, block and memory.
It runs in the candidate's process, so what it says about a candidate is evidence, not proof.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

MOST_ROWS = 64
_CONCURRENT_KERNEL = 10
_BUFFER_BYTES = 1 << 20
_REGISTERS, _START, _END, _GRID, _SHARED, _LOCAL, _NAME = 6, 16, 24, 52, 76, 84, 104
_RECORD_BYTES = 112

_Request = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_Completed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class ProfilerMissing(Exception):
    """CUPTI is not here or refuses to start."""


@dataclass(frozen=True)
class LaunchRecord:
    """One launch of a kernel, as CUPTI tells it."""

    start_ns: int
    end_ns: int
    name: str
    registers: int
    """Of a thread."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Bytes of a block, static and dynamic."""
    local: int
    """Bytes of a thread in local memory: what was spilled, and arrays with computed indices."""

    @property
    def microseconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e3


def launches_of(run: Callable[[], None], synchronize: Callable[[], None]) -> list[LaunchRecord]:
    """Every kernel that `run` launches, in the order of their starts."""
    library = cupti_library()
    buffers: dict[int, Any] = {}
    records: list[LaunchRecord] = []

    def request(buffer: Any, size: Any, most: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + 8)
        address = (ctypes.addressof(memory) + 7) // 8 * 8
        buffers[address] = memory
        buffer[0], size[0], most[0] = address, _BUFFER_BYTES, 0

    def completed(context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        while library.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0:
            data = ctypes.string_at(record.value or 0, _RECORD_BYTES)
            if _word(data, 0, 4) == _CONCURRENT_KERNEL:
                records.append(launch_record(data, ctypes.string_at(_word(data, _NAME)).decode(errors="replace")))

    callbacks = _Request(request), _Completed(completed)
    _check(library.cuptiActivityRegisterCallbacks(*callbacks))
    _check(library.cuptiActivityEnable(_CONCURRENT_KERNEL))
    try:
        run()
        synchronize()
    finally:
        library.cuptiActivityFlushAll(1)
        library.cuptiActivityDisable(_CONCURRENT_KERNEL)
        library.cuptiFinalize()
    return sorted(records, key=lambda record: record.start_ns)


def launch_record(data: bytes, name: str) -> LaunchRecord:
    """From the bytes of a kernel's record."""
    x, y, z, width, height, depth = (_word(data, _GRID + 4 * place, 4) for place in range(6))
    shared = _word(data, _SHARED, 4) + _word(data, _SHARED + 4, 4)
    times = _word(data, _START), _word(data, _END)
    return LaunchRecord(
        *times, name, _word(data, _REGISTERS, 2), (x, y, z), (width, height, depth), shared, _word(data, _LOCAL, 4)
    )


def kernel_times(run: Callable[[], None], synchronize: Callable[[], None], calls: int = 1) -> dict[str, tuple[float, int]]:
    """Microseconds and launches by demangled kernel name, over whatever `run` launches in so many equal calls."""
    launches = [(record.name, record.microseconds) for record in launches_of(run, synchronize)]
    totals: dict[str, tuple[float, int]] = {}
    for name, microseconds in undisturbed(launches, calls):
        time, count = totals.get(name, (0.0, 0))
        totals[name] = (time + microseconds, count + 1)
    return {demangled(name): total for name, total in totals.items()}


def launch_rows(run: Callable[[], None], synchronize: Callable[[], None], calls: int) -> tuple[list[list[Any]], float]:
    """Of each kernel its name, microseconds and launches in one call, and its shape, the longest first; and the microseconds of a call between
    the end of one kernel and the start of the next."""
    return summed_launches(launches_of(run, synchronize), calls)


def summed_launches(records: list[LaunchRecord], calls: int) -> tuple[list[list[Any]], float]:
    by_kernel: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        shape = (record.name, record.registers, record.grid, record.block, record.shared, record.local)
        by_kernel.setdefault(shape, []).append(record.microseconds)
    rows = [
        [
            demangled(name)[:300],
            median(times) * len(times) / calls,
            len(times) / calls,
            registers,
            list(grid),
            list(block),
            shared,
            local,
        ]
        for (name, registers, grid, block, shared, local), times in by_kernel.items()
    ]
    each = len(records) // calls if calls else 0
    between = [
        sum(max(0, later.start_ns - record.end_ns) for record, later in pairwise(records[call * each : (call + 1) * each]))
        / 1e3
        for call in range(calls if each else 0)
    ]
    return sorted(rows, key=lambda row: -row[1])[:MOST_ROWS], median(between) if between else 0.0


def kernel_rows(run: Callable[[], None], synchronize: Callable[[], None], calls: int) -> list[list[Any]]:
    """Name, microseconds and launches of each kernel in one call, the longest first."""
    times = kernel_times(run, synchronize, calls)
    ranked = sorted(times.items(), key=lambda item: -item[1][0])[:MOST_ROWS]
    return [[name[:300], total / calls, count / calls] for name, (total, count) in ranked]


def undisturbed(launches: list[tuple[str, float]], calls: int) -> list[tuple[str, float]]:
    """Names and times of kernels in their order, each time replaced by the median of the same launch in all calls: other processes
    may have had the device in the middle of one. As they are, where the calls did not launch the same."""
    each = len(launches) // calls
    names = [name for name, _ in launches[:each]]
    if each * calls != len(launches) or names * calls != [name for name, _ in launches]:
        return launches
    middle = [median(launches[place + each * call][1] for call in range(calls)) for place in range(each)]
    return list(zip(names, middle)) * calls


def demangled(name: str) -> str:
    """`_ZN2at6native…` as C++ writes it; other names as they are."""
    if not name.startswith("_Z"):
        return name
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return name
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


def cupti_library() -> ctypes.CDLL:
    """The copy that torch already loaded, or one that lies beside it."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            loaded = sorted({line.split()[-1] for line in file if "libcupti" in line})
    except OSError:
        loaded = []
    beside = [path for entry in sys.path for path in glob.glob(os.path.join(entry, "nvidia", "*", "lib", "libcupti.so.*"))]
    for path in [*loaded, *beside, "libcupti.so"]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise ProfilerMissing("libcupti was not found")


def _check(status: int) -> None:
    if status != 0:
        raise ProfilerMissing(f"CUPTI refused with status {status}")


def _word(data: bytes, offset: int, size: int = 8) -> int:
    return int.from_bytes(data[offset : offset + size], "little")
