"""Hardware counters of a GPU over one call, by CUPTI's range profiler: the 24 that say what a kernel waits for, in five passes.

They need privileges: the driver counts for root alone unless its `NVreg_RestrictProfilingToAdminUsers` is 0, and the candidate's process is never
root. The call is made once for each pass, after everything that is timed. Like all that runs in the candidate's process this is evidence, not proof.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from bottega.judge.cupti import ProfilerMissing, cupti_library

_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_OF_PEAK = ".avg.pct_of_peak_sustained_active"
COUNTERS: Mapping[str, str] = {
    "time_ns": "gpu__time_duration.sum",
    "sm_cycles": "sm__cycles_active.avg",
    "warps_active_pct": f"sm__warps_active{_OF_PEAK}",
    "issue_active_pct": f"smsp__issue_active{_OF_PEAK}",
    "instructions": "smsp__inst_executed.sum",
    "threads_per_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "latency_per_instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "fma_pipe_pct": f"sm__inst_executed_pipe_fma{_OF_PEAK}",
    "alu_pipe_pct": f"sm__inst_executed_pipe_alu{_OF_PEAK}",
    "special_pipe_pct": f"sm__inst_executed_pipe_xu{_OF_PEAK}",
    "tensor_pipe_pct": f"sm__inst_executed_pipe_tensor{_OF_PEAK}",
    "tensor_cycles_pct": f"sm__pipe_tensor_cycles_active{_OF_PEAK}",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "stalled_on_memory": _STALLED.format("long_scoreboard"),
    "stalled_on_shared_memory": _STALLED.format("short_scoreboard"),
    "stalled_at_barriers": _STALLED.format("barrier"),
    "stalled_on_arithmetic": _STALLED.format("math_pipe_throttle"),
    "stalled_on_memory_queue": _STALLED.format("mio_throttle"),
    "stalled_on_fixed_latency": _STALLED.format("wait"),
}
"""By our name. Stalls are warps that wait, on average, while one issues."""
MOST_PASSES = 64
_NO_PRIVILEGES = 35
_RANGE_PROFILER, _USER_RANGE, _USER_REPLAY = 0, 2, 3
_SIZE, _POINTER, _INT, _SHORT, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint16, ctypes.c_char_p
Field = tuple[Any, Any]


class Profiler:
    """CUPTI's calls, each with one structure of parameters: its size, nothing, and the fields given here in their order."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *fields: Field) -> list[Any]:
        """The fields as they are after the call. Raises `ProfilerMissing` where CUPTI has no such call or refuses."""
        function = getattr(self._library, name, None)
        if function is None:
            raise ProfilerMissing(f"this CUPTI has no {name}")
        names = [f"field{place}" for place in range(len(fields))]
        kinds = [("size", _SIZE), ("private", _POINTER), *zip(names, (kind for kind, _ in fields))]
        structure: Any = type(name, (ctypes.Structure,), {"_fields_": kinds})
        given = structure()
        last = getattr(structure, kinds[-1][0])
        given.size = last.offset + last.size
        for each, (_, value) in zip(names, fields):
            if value is not None:
                setattr(given, each, value)
        status = function(ctypes.byref(given))
        if status == _NO_PRIVILEGES:
            raise ProfilerMissing("the driver counts for root alone")
        if status != 0:
            raise ProfilerMissing(f"{name} was refused with status {status}")
        return [getattr(given, each) for each in names]


def scheduled(profiler: Profiler, host: int, names: Any, count: int) -> Any:
    """The image that says what is counted in which pass."""
    profiler.call("cuptiProfilerHostConfigAddMetrics", (_POINTER, host), (_POINTER, ctypes.addressof(names)), (_SIZE, count))
    size = profiler.call("cuptiProfilerHostGetConfigImageSize", (_POINTER, host), (_SIZE, None))[1]
    image = ctypes.create_string_buffer(size)
    profiler.call("cuptiProfilerHostGetConfigImage", (_POINTER, host), (_SIZE, size), (_POINTER, ctypes.addressof(image)))
    return image


def passes_of(profiler: Profiler, image: Any) -> int:
    size = ctypes.sizeof(image)
    fields = ((_SIZE, size), (_POINTER, ctypes.addressof(image)), (_SIZE, None))
    return int(profiler.call("cuptiProfilerHostGetNumOfPasses", *fields)[2])


def opened_host(profiler: Profiler, chip: bytes, available: int | None = None) -> int:
    kind = (_INT, _RANGE_PROFILER)
    return int(profiler.call("cuptiProfilerHostInitialize", kind, (_TEXT, chip), (_POINTER, available), (_POINTER, None))[3])


def metric_names(metrics: Sequence[str]) -> Any:
    return (_TEXT * len(metrics))(*(metric.encode() for metric in metrics))


def counted(run: Callable[[], None], synchronize: Callable[[], None], device: int = 0) -> dict[str, float]:
    """By our names, over one call of `run`, which is made as often as there are passes. Raises `ProfilerMissing`."""
    profiler, names = Profiler(cupti_library()), metric_names(list(COUNTERS.values()))
    with ExitStack() as stack:

        def later(name: str, *fields: Field) -> None:
            stack.callback(lambda: _tried(profiler, name, *fields))

        profiler.call("cuptiProfilerInitialize")
        later("cuptiProfilerDeInitialize")
        context, chip = _context(), profiler.call("cuptiDeviceGetChipName", (_SIZE, device), (_TEXT, None))[1]
        asked = "cuptiProfilerGetCounterAvailability", (_POINTER, context)
        size = profiler.call(*asked, (_SIZE, 0), (_POINTER, None))[1]
        available = ctypes.create_string_buffer(size)
        profiler.call(*asked, (_SIZE, size), (_POINTER, ctypes.addressof(available)))
        host = opened_host(profiler, chip, ctypes.addressof(available))
        later("cuptiProfilerHostDeinitialize", (_POINTER, host))
        image = scheduled(profiler, host, names, len(COUNTERS))
        target = profiler.call("cuptiRangeProfilerEnable", (_POINTER, context), (_POINTER, None))[1]
        later("cuptiRangeProfilerDisable", (_POINTER, target))
        counts = _room_for_counts(profiler, target, names)
        _count(profiler, target, image, counts, run, synchronize)
        values = (ctypes.c_double * len(COUNTERS))()
        profiler.call(
            "cuptiProfilerHostEvaluateToGpuValues",
            (_POINTER, host),
            (_POINTER, ctypes.addressof(counts)),
            (_SIZE, ctypes.sizeof(counts)),
            (_SIZE, 0),
            (_POINTER, ctypes.addressof(names)),
            (_SIZE, len(COUNTERS)),
            (_POINTER, ctypes.addressof(values)),
        )
        return dict(zip(COUNTERS, map(float, values)))


def _tried(profiler: Profiler, name: str, *fields: Field) -> None:
    with suppress(ProfilerMissing):
        profiler.call(name, *fields)


def _room_for_counts(profiler: Profiler, target: int, names: Any) -> Any:
    fields = ((_POINTER, target), (_POINTER, ctypes.addressof(names)), (_SIZE, len(COUNTERS)), (_SIZE, 1), (ctypes.c_uint32, 1))
    size = profiler.call("cuptiRangeProfilerGetCounterDataSize", *fields, (_SIZE, None))[5]
    counts = ctypes.create_string_buffer(size)
    given = ((_POINTER, target), (_SIZE, size), (_POINTER, ctypes.addressof(counts)))
    profiler.call("cuptiRangeProfilerCounterDataImageInitialize", *given)
    return counts


def _count(
    profiler: Profiler, target: int, image: Any, counts: Any, run: Callable[[], None], synchronize: Callable[[], None]
) -> None:
    profiler.call(
        "cuptiRangeProfilerSetConfig",
        (_POINTER, target),
        (_SIZE, ctypes.sizeof(image)),
        (_POINTER, ctypes.addressof(image)),
        (_SIZE, ctypes.sizeof(counts)),
        (_POINTER, ctypes.addressof(counts)),
        (_INT, _USER_RANGE),
        (_INT, _USER_REPLAY),
        (_SIZE, 1),
        (_SHORT, 1),
        (_SHORT, 1),
        (_SIZE, 0),
        (_SHORT, 1),
    )
    own = (_POINTER, target)
    for _ in range(MOST_PASSES):
        profiler.call("cuptiRangeProfilerStart", own)
        profiler.call("cuptiRangeProfilerPushRange", own, (_TEXT, b"call"))
        run()
        synchronize()
        profiler.call("cuptiRangeProfilerPopRange", own)
        stopped = profiler.call("cuptiRangeProfilerStop", own, (_SIZE, None), (_SIZE, None), (ctypes.c_uint8, None))
        if stopped[3]:
            break
    profiler.call("cuptiRangeProfilerDecodeData", own, (_SIZE, None))


def _context() -> int:
    """The one that torch works in."""
    try:
        driver, found = ctypes.CDLL("libcuda.so.1"), _POINTER()
    except OSError:
        raise ProfilerMissing("there is no driver") from None
    if driver.cuCtxGetCurrent(ctypes.byref(found)) or not found.value:
        raise ProfilerMissing("no context is current")
    return found.value
