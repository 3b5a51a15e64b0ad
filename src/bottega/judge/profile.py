"""A verdict's profile: where a candidate's time goes, against what the device could do, and the bottleneck in one sentence.

Pure functions over what the profile stage measured. Rows from the candidate's process are evidence and no proof: only those that make sense are
read, and nothing here is part of a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bottega.core.device import DeviceFacts
from bottega.core.foreign_text import one_line
from bottega.judge.coverage import base_name
from bottega.judge.hardware_counters import COUNTERS
from bottega.sandbox.perf_counters import EVENTS

MOST_KERNELS = 8
LANES = 32
WARPS_OF_AN_SM, BLOCKS_OF_AN_SM = 64, 32
WIDTHS = (0, 1, 128, 256, 512)
"""Of vectors, in bits, as `machine_code` counts them: 0 for scalars, 1 for vectors whose width the code does not tell."""
NEAR = 1.3
"""Within this factor of a roof a kernel is bound by it."""
FEW_THREADS = 0.6
LOW_OCCUPANCY = 0.25
MANY_GAPS = 0.3
MOSTLY_SCALAR = 0.05
MANY_MISSES = 0.2
MANY_STALLED = 1.0
STALLS = {
    "stalled_on_memory": "for loads from memory; load earlier, reuse what is loaded, or run more warps",
    "stalled_on_shared_memory": "for shared memory; avoid bank conflicts, or keep values in registers",
    "stalled_at_barriers": "at barriers; use fewer of them, or smaller programs",
    "stalled_on_arithmetic": "for an arithmetic unit; use cheaper operations or tensor cores",
    "stalled_on_memory_queue": "for the queue of memory instructions; use wider loads and fewer of them",
    "stalled_on_fixed_latency": "for the result before; work on several independent values",
}


def profile_of(
    raw: Mapping[str, Any], times_ms: Mapping[str, float], facts: Mapping[str, Any], device: DeviceFacts
) -> dict[str, Any]:
    """`raw` is the stage's report, `facts` what is known of the task: bytes in and out, and the measured rate of memory."""
    seconds = times_ms.get("candidate", 0.0) / 1e3
    traffic = sum(facts.get(name, 0) for name in ("input_bytes", "output_bytes", "parameter_bytes"))
    profile: dict[str, Any] = {
        "gbs": round(traffic / seconds / 1e9, 2) if seconds else None,
        "peak_gbs": round(facts.get("bytes_per_second", 0) / 1e9, 2) or None,
        "gflops": round(raw.get("operations", 0) / seconds / 1e9, 2) if seconds and raw.get("operations") else None,
        "peak_gflops": round(raw.get("peak_operations", 0) / 1e9, 2) or None,
    }
    profile |= _of_cpu(raw, device) if device.kind == "cpu" else _of_gpu(raw, device, seconds)
    return {**profile, "bottleneck": bottleneck(profile, times_ms, device)}


def _of_cpu(raw: Mapping[str, Any], device: DeviceFacts) -> dict[str, Any]:
    counts, counters = _counts(raw.get("instructions")), _counters(raw.get("counters"))
    total = sum(counts.values())
    widest = max((width for width, count in counts.items() if width and count), default=0)
    return {
        "threads": round(float(raw.get("threads", 0.0)), 2),
        "cores": device.cores,
        "vector_bits": widest or None,
        "vector_share": round(1 - counts.get(0, 0) / total, 3) if total else None,
        "cache_misses": round(counters["cache_misses"]) if "cache_misses" in counters else None,
        "cache_miss_share": _share(counters, "cache_misses", "cache_references"),
        "instructions_per_cycle": _share(counters, "instructions", "cycles"),
    }


def _share(counters: Mapping[str, float], part: str, whole: str) -> float | None:
    return round(counters[part] / counters[whole], 3) if part in counters and counters.get(whole) else None


def _counters(value: Any) -> dict[str, float]:
    """Hardware counters by name, of those that we ask for."""
    rows = value if isinstance(value, dict) else {}
    known = {name: rows.get(name) for name in (*EVENTS, *COUNTERS)}
    return {name: float(count) for name, count in known.items() if isinstance(count, int | float) and 0 <= count < 1e18}


def _counts(value: Any) -> dict[int, int]:
    rows = value if isinstance(value, dict) else {}
    counts = {width: rows.get(str(width)) for width in WIDTHS}
    return {width: count for width, count in counts.items() if isinstance(count, int) and 0 <= count < 10**9}


def _of_gpu(raw: Mapping[str, Any], device: DeviceFacts, seconds: float) -> dict[str, Any]:
    told, gaps = raw.get("launches"), raw.get("gaps_us")
    rows = [row for row in told if _is_launch(row)][:MOST_KERNELS] if isinstance(told, list) else []
    return {
        "kernels": [_kernel(row, device) for row in rows],
        "gaps_us": round(float(gaps), 2) if isinstance(gaps, int | float) and 0 <= gaps < 1e9 else None,
        "call_us": round(seconds * 1e6, 2),
        "counters": {name: float(f"{count:.4g}") for name, count in _counters(raw.get("counters")).items()},
        "not_counted": one_line(str(raw["not_counted"]), 200) if raw.get("not_counted") else None,
    }


def _is_launch(row: Any) -> bool:
    """Name, microseconds and launches a call, registers, grid, block, bytes of shared and of local memory."""
    if not isinstance(row, list | tuple) or len(row) != 8 or not isinstance(row[0], str):
        return False
    shapes = all(isinstance(each, list | tuple) and len(each) == 3 for each in (row[4], row[5]))
    numbers = (*row[1:4], *row[6:], *(row[4] if shapes else ()), *(row[5] if shapes else ()))
    return shapes and all(isinstance(value, int | float) and 0 <= value < 1e12 for value in numbers)


def _kernel(row: Any, device: DeviceFacts) -> dict[str, Any]:
    name, microseconds, launches, registers, grid, block, shared, local = row
    threads = int(block[0] * block[1] * block[2])
    share, limit = occupancy(int(registers), threads, int(shared), device)
    return {
        "name": one_line(base_name(name), 80),
        "us": round(float(microseconds), 2),
        "launches": round(float(launches), 2),
        "grid": [int(each) for each in grid],
        "block": [int(each) for each in block],
        "registers": int(registers),
        "shared_bytes": int(shared),
        "local_bytes": int(local),
        "occupancy": share,
        "limited_by": limit,
    }


def occupancy(registers: int, threads: int, shared: int, device: DeviceFacts) -> tuple[float | None, str]:
    """The share of an SM's warps that can be there at once, in theory, and what limits it: registers, shared memory, warps or blocks."""
    if threads <= 0 or not device.registers:
        return None, ""
    warps = -(-threads // LANES)
    # Registers are given to a warp in steps of 256.
    by_registers = device.registers // (-(-max(registers, 1) * LANES // 256) * 256 * warps)
    room = (device.shared_kib or 0) * 1024
    limits = {"registers": by_registers, "warps": WARPS_OF_AN_SM // warps, "blocks": BLOCKS_OF_AN_SM}
    if shared and room:
        limits["shared memory"] = int(room // shared)
    limit = min(limits, key=lambda name: limits[name])
    return round(min(1.0, limits[limit] * warps / WARPS_OF_AN_SM), 3), limit


def bottleneck(profile: Mapping[str, Any], times_ms: Mapping[str, float], device: DeviceFacts) -> str:
    """One sentence for whoever writes the next kernel."""
    own, floor = times_ms.get("candidate"), times_ms.get("floor")
    if not own:
        return ""
    if floor and own < NEAR * floor:
        return f"Bound by memory: {profile['gbs']} of {profile['peak_gbs']} GB/s; only moving fewer bytes makes it faster."
    if profile.get("gflops") and profile.get("peak_gflops") and profile["gflops"] * NEAR > profile["peak_gflops"]:
        return f"Bound by arithmetic: {profile['gflops']} of {profile['peak_gflops']} GFLOP/s; only fewer or cheaper operations make it faster."
    if device.kind == "cpu":
        return _cpu_bottleneck(profile)
    return _gpu_bottleneck(profile)


def _cpu_bottleneck(profile: Mapping[str, Any]) -> str:
    if profile["threads"] and profile["cores"] and profile["threads"] < FEW_THREADS * profile["cores"]:
        return f"It keeps {profile['threads']:.1f} of {profile['cores']} cores busy; share the outer loop among threads."
    if profile["vector_share"] is not None and profile["vector_share"] < MOSTLY_SCALAR:
        return f"Its arithmetic is scalar: {profile['vector_share']:.0%} of its instructions are vectors; make the inner loop run in lanes."
    if profile["cache_miss_share"] is not None and profile["cache_miss_share"] > MANY_MISSES:
        return f"{profile['cache_miss_share']:.0%} of its accesses to the cache miss; read along memory, in tiles that stay in the cache."
    return "Far from both roofs with all cores busy: look for repeated reads, strided access and dependent operations in the inner loop."


def _gpu_bottleneck(profile: Mapping[str, Any]) -> str:
    kernels = profile["kernels"]
    if not kernels:
        return ""
    first = kernels[0]
    if profile["gaps_us"] and profile["call_us"] and profile["gaps_us"] > MANY_GAPS * profile["call_us"]:
        count = sum(kernel["launches"] for kernel in kernels)
        return (
            f"{profile['gaps_us']:g} us of {profile['call_us']:g} us pass between its {count:g} launches; launch fewer kernels."
        )
    if first["local_bytes"]:
        return f"{first['name']} spills {first['local_bytes']} bytes a thread; use smaller tiles or more warps."
    if first["occupancy"] is not None and first["occupancy"] < LOW_OCCUPANCY:
        return f"{first['name']} reaches {first['occupancy']:.0%} occupancy, limited by {first['limited_by']}; use less of it for a program."
    stalls = {name: count for name, count in profile["counters"].items() if name in STALLS}
    if (longest := max(stalls, key=lambda name: stalls[name], default="")) and stalls[longest] > MANY_STALLED:
        return f"{stalls[longest]:.1f} warps wait {STALLS[longest]} while one issues: the call's longest wait."
    return f"{first['name']} takes {first['us']:g} us, far from both roofs: look at its access pattern, its tile sizes and its pipelining."
