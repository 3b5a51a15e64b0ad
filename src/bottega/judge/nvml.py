"""Clocks, power and throttling of the GPU through NVIDIA's management library; empty where it is not there."""

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
