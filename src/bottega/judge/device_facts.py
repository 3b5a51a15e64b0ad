"""Facts about a device for kernel writers, read without torch and without initialising the device in this process.

A CPU's facts lie in /proc and /sys. A GPU is asked through its driver, in a process of its own: a process that has initialised CUDA
cannot fork children that use it. Nothing here raises; what is not known stays unknown.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError

_INSTRUCTIONS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_bf16",
    "asimd",
    "sve",
    "sve2",
    "bf16",
)
"""Those that change how a kernel is written."""
_PATIENCE = 30.0
_GIB, _MIB, _KIB = 2**30, 2**20, 2**10

_ATTRIBUTES = {
    "cores": 16,
    "memory_khz": 36,
    "bus_bits": 37,
    "cache": 38,
    "major": 75,
    "minor": 76,
    "registers": 82,
    "shared": 97,
}
"""Numbers of `CUdevice_attribute`."""


@cache
def device_facts(device: str) -> DeviceFacts:
    """Facts of `cpu`, `cuda` or `cuda:N`."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return cpu_facts()
    told = _asked_apart(int(index) if index.isdigit() else 0) if kind == "cuda" else {}
    return cuda_facts(told) if told else DeviceFacts(kind, f"unknown {kind} device", "", 0, 0.0)


def is_here(device: str) -> bool:
    """Whether this machine has such a device, so far as can be seen without asking it."""
    return device == "cpu" or Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def require_device(device: str) -> None:
    """Raises `UsageError` where this machine has no such device: asked before anything that takes time."""
    if not is_here(device):
        raise UsageError(f"device {device}: no NVIDIA GPU is visible here; use --device cpu")


def cpu_facts(root: Path = Path("/")) -> DeviceFacts:
    """`root` is where /proc and /sys are."""
    told = _processor(_read(root / "proc/cpuinfo"))
    flags = told.get("flags") or told.get("Features") or ""
    known = [name for name in _INSTRUCTIONS if name in flags.split()]
    caches = _caches(root / "sys/devices/system/cpu/cpu0/cache")
    levels = sorted(caches)
    return DeviceFacts(
        kind="cpu",
        name=told.get("model name") or told.get("Model") or platform.processor() or platform.machine() or "unknown cpu",
        arch=" ".join([platform.machine(), *known]).strip(),
        cores=_cores(),
        memory_gib=round(_memory(root) / _GIB, 1),
        cache_mib=round(caches[levels[-1]] / _MIB, 2) if levels else None,
        shared_kib=round(caches[levels[-2]] / _KIB, 1) if len(levels) > 1 else None,
    )


def cuda_facts(told: dict[str, Any]) -> DeviceFacts:
    """From what the driver says; from name and memory alone where only nvidia-smi answers."""
    facts = DeviceFacts("cuda", str(told.get("name") or "unknown cuda device"), "", 0, round(_number(told, "memory") / _GIB, 1))
    if told.get("major") is not None:
        facts = replace(facts, arch=f"sm_{told['major']}{told.get('minor') or 0}")
    clock, bits = _number(told, "memory_khz"), _number(told, "bus_bits")
    return replace(
        facts,
        cores=int(_number(told, "cores")),
        bandwidth_gbs=round(clock * 1e3 * 2 * bits / 8 / 1e9, 0) or None,  # twice a cycle, bits to bytes
        cache_mib=round(_number(told, "cache") / _MIB, 2) or None,
        shared_kib=round(_number(told, "shared") / _KIB, 1) or None,
        registers=int(_number(told, "registers")) or None,
    )


def _number(told: dict[str, Any], key: str) -> float:
    value = told.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _asked_apart(index: int) -> dict[str, Any]:
    told = _json_of(_output([sys.executable, "-m", "bottega.judge.device_facts", str(index)]))
    return told or _from_smi(
        _output(["nvidia-smi", f"--id={index}", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits"])
    )


def _from_smi(line: str) -> dict[str, Any]:
    parts = [part.strip() for part in line.strip().split("\n")[0].split(",")]
    if len(parts) != 3 or not re.fullmatch(r"\d+(\.\d+)?", parts[1]):
        return {}
    major, _, minor = parts[2].partition(".")
    found: dict[str, Any] = {"name": parts[0], "memory": float(parts[1]) * _MIB}
    return {**found, "major": int(major), "minor": int(minor)} if major.isdigit() and minor.isdigit() else found


def driver_says(index: int) -> dict[str, Any]:
    """What the CUDA driver knows of a device; empty where there is none. Initialises CUDA: not for a process that will fork."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    device, value, memory, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return {}
    found: dict[str, Any] = {}
    if driver.cuDeviceGetName(name, len(name), device) == 0:
        found["name"] = name.value.decode(errors="replace")
    if driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0:
        found["memory"] = memory.value
    for key, number in _ATTRIBUTES.items():
        if driver.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0:
            found[key] = value.value
    return found


def _json_of(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=_PATIENCE, check=False
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def _processor(text: str) -> dict[str, str]:
    """The first processor's lines, and those that ARM has for all."""
    pairs = [line.partition(":") for line in text.splitlines()]
    return {key.strip(): value.strip() for key, _, value in reversed(pairs) if value.strip()}


def _caches(folder: Path) -> dict[int, int]:
    """Bytes by level, without caches of instructions."""
    found: dict[int, int] = {}
    for place in sorted(folder.glob("index*")):
        size = re.match(r"(\d+)([KMG]?)", _read(place / "size"))
        level = _read(place / "level").strip()
        if size and level.isdigit() and _read(place / "type").strip() != "Instruction":
            found[int(level)] = int(size[1]) * {"": 1, "K": _KIB, "M": _MIB, "G": _GIB}[size[2]]
    return found


def _memory(root: Path) -> float:
    """What the machine has, or what this container may use of it."""
    total = re.search(r"^MemTotal:\s*(\d+)", _read(root / "proc/meminfo"), re.M)
    limit = _read(root / "sys/fs/cgroup/memory.max").strip()
    sizes = [int(total[1]) * _KIB if total else 0, int(limit) if limit.isdigit() else 0]
    return min((size for size in sizes if size), default=0)


def _cores() -> int:
    """Threads that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


if __name__ == "__main__":
    print(json.dumps(driver_says(int(sys.argv[1]))))
