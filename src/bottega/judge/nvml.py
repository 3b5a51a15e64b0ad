"""Clocks, power, throttling and memory of the GPU through NVIDIA's management library, which needs no context; empty where it is not there."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_MOST_PROCESSES = 256


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("part", ctypes.c_uint)]


@cache
def _library() -> ctypes.CDLL | None:
    """Started once, since that takes longer than all readings."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def _handle(library: ctypes.CDLL, index: int) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    return handle if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) == 0 else None


def gpu_memory(index: int = 0) -> tuple[int, int] | None:
    """Bytes that the GPU has, and those that are not free, whoever holds them."""
    library = _library()
    handle = None if library is None else _handle(library, index)
    memory = _Memory()
    if library is None or handle is None or library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
        return None
    return memory.total, memory.total - memory.free


def gpu_processes(index: int = 0) -> list[tuple[int, int]]:
    """Process ids on the GPU with their bytes, largest first, as far as it is told: containers often hide them."""
    library = _library()
    handle = None if library is None else _handle(library, index)
    if library is None or handle is None or not hasattr(library, "nvmlDeviceGetComputeRunningProcesses_v3"):
        return []
    count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found) != 0:
        return []
    known = [(row.pid, row.bytes) for row in found[: count.value] if row.pid and row.bytes < 1 << 60]
    return sorted(known, key=lambda row: -row[1])


def gpu_conditions(index: int) -> dict[str, Any]:
    library = _library()
    handle = None if library is None else _handle(library, index)
    if library is None or handle is None:
        return {}
    found: dict[str, Any] = {}
    value = ctypes.c_uint()
    readings = {
        "sm_clock_mhz": lambda: library.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(value)),
        "memory_clock_mhz": lambda: library.nvmlDeviceGetClockInfo(handle, _MEMORY_CLOCK, ctypes.byref(value)),
        "power_mw": lambda: library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(value)),
        "temperature_c": lambda: library.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(value)),
    }
    for name, read in readings.items():
        if read() == 0:
            found[name] = value.value
    reasons = ctypes.c_ulonglong()
    if library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) == 0:
        found["throttle_reasons"] = reasons.value
        found["throttled"] = bool(reasons.value & ~0x3)  # idle and application clocks are no throttling
    return found
