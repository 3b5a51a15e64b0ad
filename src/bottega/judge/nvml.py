"""Clocks, power, throttling and memory of the GPU through NVIDIA's management library; empty where it is not there."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_SM_CLOCK, _MEMORY_CLOCK = 1, 2


@cache
def _library() -> ctypes.CDLL | None:
    """Started once, since that takes longer than all readings."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def memory_info(index: int = 0) -> tuple[int, int]:
    """Bytes that the device has and that are used, by whomever; zeros where nobody can say."""
    library, handle, memory = _library(), ctypes.c_void_p(), _Memory()
    if (
        library is None
        or library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0
        or library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0
    ):
        return 0, 0
    return memory.total, memory.used


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def memory_by_process(index: int = 0) -> dict[int, int]:
    """Bytes by process id, as far as the driver tells: inside a container often nothing, or ids of the host."""
    library, handle = _library(), ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
        return {}
    count, found = ctypes.c_uint(256), (_Process * 256)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found) != 0:
        return {}
    return {each.pid: each.used for each in found[: count.value] if each.used != 2**64 - 1}


def gpu_conditions(index: int = 0) -> dict[str, Any]:
    library = _library()
    if library is None:
        return {}
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
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
