"""Hardware counters of a GPU, by CUPTI's range profiler: the 24 that say what a kernel waits for, of the one that takes longest in a call.

They need privileges: the driver counts for root alone unless its `NVreg_RestrictProfilingToAdminUsers` is 0, and the candidate's process is never
root. CUPTI runs each kernel once for each of five passes and puts its memory back between, after everything that is timed. (With the call as one
range an H200 counted 20 ms of CUPTI's own around a kernel of 6 us, and all rates were those of a GPU at rest.) Like all that runs in the candidate's
process this is evidence, not proof.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
MOST_KERNELS = 64
"""Of a call; those after them are not counted."""
_NO_PRIVILEGES = 35
_RANGE_PROFILER, _RANGE_PER_KERNEL, _KERNEL_REPLAY = 0, 1, 2
_SIZE, _POINTER, _INT, _SHORT, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint16, ctypes.c_char_p
_Callback = ctypes.CFUNCTYPE(None, _POINTER, _INT, ctypes.c_uint32, _POINTER)
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
    """By our names, of the kernel that takes longest in one call of `run`. Raises `ProfilerMissing`."""
    library = cupti_library()
    profiler, names = Profiler(library), metric_names(list(COUNTERS.values()))
    with ExitStack() as stack:

        def later(name: str, *fields: Field) -> None:
            stack.callback(lambda: _tried(profiler, name, *fields))

        stack.enter_context(_attached(library))
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
        place = ((_POINTER, ctypes.addressof(counts)), (_SIZE, ctypes.sizeof(counts)))
        kernels = profiler.call("cuptiRangeProfilerGetCounterDataInfo", *place, (_SIZE, None))[2]
        found = [_values(profiler, host, place, kernel, names) for kernel in range(kernels)]
        if not found:
            raise ProfilerMissing("no kernel was launched")
        return max(found, key=lambda values: values["time_ns"])


def _values(profiler: Profiler, host: int, place: tuple[Field, Field], kernel: int, names: Any) -> dict[str, float]:
    values = (ctypes.c_double * len(COUNTERS))()
    profiler.call(
        "cuptiProfilerHostEvaluateToGpuValues",
        (_POINTER, host),
        *place,
        (_SIZE, kernel),
        (_POINTER, ctypes.addressof(names)),
        (_SIZE, len(COUNTERS)),
        (_POINTER, ctypes.addressof(values)),
    )
    return dict(zip(COUNTERS, map(float, values)))


def _tried(profiler: Profiler, name: str, *fields: Field) -> None:
    with suppress(ProfilerMissing):
        profiler.call(name, *fields)


@contextmanager
def _attached(library: Any) -> Iterator[None]:
    """A subscriber that is told nothing. Launches were traced before, which ends by `cuptiFinalize`, and after it CUPTI's profiler begins only while
    there is one: else it says that it is not initialised (CUDA 13.0)."""
    told, subscriber = _Callback(lambda *_: None), _POINTER()
    library.cuptiSubscribe(ctypes.byref(subscriber), told, None)
    try:
        yield
    finally:
        library.cuptiUnsubscribe(subscriber)


def _room_for_counts(profiler: Profiler, target: int, names: Any) -> Any:
    metrics, room = (_POINTER, ctypes.addressof(names)), ((_SIZE, MOST_KERNELS), (ctypes.c_uint32, MOST_KERNELS))
    fields = ((_POINTER, target), metrics, (_SIZE, len(COUNTERS)), *room)
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
        (_INT, _RANGE_PER_KERNEL),
        (_INT, _KERNEL_REPLAY),
        (_SIZE, MOST_KERNELS),
        (_SHORT, 1),
        (_SHORT, 1),
        (_SIZE, 0),
        (_SHORT, 1),
    )
    own = (_POINTER, target)
    profiler.call("cuptiRangeProfilerStart", own)
    run()
    synchronize()
    profiler.call("cuptiRangeProfilerStop", own, (_SIZE, None), (_SIZE, None), (ctypes.c_uint8, None))
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
