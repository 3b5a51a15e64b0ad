"""Hardware counters of a GPU: the names are CUPTI's, structures are laid out as its headers say, and what it refuses is told."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch

from bottega.judge import hardware_counters
from bottega.judge.cupti import ProfilerMissing, cupti_library, launch_rows
from bottega.judge.hardware_counters import COUNTERS, Profiler, metric_names, opened_host, passes_of, scheduled


class PretendCupti:
    """Takes every call; the second of two kernels takes longest."""

    def __init__(self, refuse: str = "", status: int = 1, kernels: int = 2) -> None:
        self.refuse, self.status, self.kernels = refuse, status, kernels
        self.asked: list[str] = []
        self.sizes: dict[str, int] = {}

    def __getattr__(self, name: str) -> Callable[[Any], int]:
        def call(reference: Any, *_: Any) -> int:
            self.asked.append(name)
            if name in ("cuptiSubscribe", "cuptiUnsubscribe"):
                return 0
            given = reference._obj
            self.sizes[name] = given.size
            if name == self.refuse:
                return self.status
            if name in ("cuptiProfilerHostGetConfigImageSize", "cuptiProfilerGetCounterAvailability"):
                given.field1 = 64
            if name == "cuptiProfilerHostInitialize":
                given.field3 = 7
            if name == "cuptiRangeProfilerEnable":
                given.field1 = 8
            if name == "cuptiRangeProfilerGetCounterDataSize":
                given.field5 = 64
            if name == "cuptiRangeProfilerGetCounterDataInfo":
                given.field2 = self.kernels
            if name == "cuptiProfilerHostEvaluateToGpuValues":
                values = ctypes.cast(given.field6, ctypes.POINTER(ctypes.c_double))
                values[0], values[3] = 10.0 + given.field3, 50.0 + given.field3
            return 0

        return call


def counted(pretended: PretendCupti, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> dict[str, float]:
    monkeypatch.setattr(hardware_counters, "cupti_library", lambda: pretended)
    monkeypatch.setattr(hardware_counters, "_context", lambda: 1)
    return hardware_counters.counted(run, lambda: None)


def test_the_counters_are_those_of_the_longest_kernel_and_everything_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended, calls = PretendCupti(), list[int]()
    found = counted(pretended, monkeypatch, lambda: calls.append(1))
    assert len(calls) == 1
    assert set(found) == set(COUNTERS)
    assert (found["time_ns"], found["issue_active_pct"]) == (11.0, 51.0)
    closing = ["cuptiRangeProfilerDisable", "cuptiProfilerHostDeinitialize", "cuptiProfilerDeInitialize"]
    assert pretended.asked[-4:-1] == closing


def test_a_driver_that_counts_for_root_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = PretendCupti("cuptiRangeProfilerEnable", 35)
    with pytest.raises(ProfilerMissing, match="root alone"):
        counted(pretended, monkeypatch, lambda: None)
    assert pretended.asked[-3:-1] == ["cuptiProfilerHostDeinitialize", "cuptiProfilerDeInitialize"]


def test_a_call_without_a_kernel_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProfilerMissing, match="no kernel"):
        counted(PretendCupti(kernels=0), monkeypatch, lambda: None)


def test_there_is_a_subscriber_while_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since launches were traced before, which ends by `cuptiFinalize`: CUPTI's profiler refuses with 15 then (H200, CUDA 13.0)."""
    pretended = PretendCupti()
    counted(pretended, monkeypatch, lambda: None)
    assert (pretended.asked[0], pretended.asked[-1]) == ("cuptiSubscribe", "cuptiUnsubscribe")


def test_structures_have_the_sizes_of_cupti_s_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a C compiler finds them for CUDA 13.0: offset and size of the last field."""
    pretended = PretendCupti()
    counted(pretended, monkeypatch, lambda: None)
    assert {name: pretended.sizes[name] for name in SIZES} == SIZES


SIZES = {
    "cuptiProfilerInitialize": 16,
    "cuptiDeviceGetChipName": 32,
    "cuptiProfilerGetCounterAvailability": 40,
    "cuptiProfilerHostInitialize": 48,
    "cuptiProfilerHostConfigAddMetrics": 40,
    "cuptiProfilerHostGetConfigImage": 40,
    "cuptiProfilerHostEvaluateToGpuValues": 72,
    "cuptiRangeProfilerEnable": 32,
    "cuptiRangeProfilerGetCounterDataSize": 64,
    "cuptiRangeProfilerCounterDataImageInitialize": 40,
    "cuptiRangeProfilerSetConfig": 90,
    "cuptiRangeProfilerStop": 41,
    "cuptiRangeProfilerGetCounterDataInfo": 40,
    "cuptiRangeProfilerDecodeData": 32,
}


@pytest.mark.parametrize("chip", ["GA100", "GH100"])
def test_cupti_knows_the_counters_and_needs_few_passes(chip: str) -> None:
    """Its host side needs no GPU."""
    try:
        profiler = Profiler(cupti_library())
        host = opened_host(profiler, chip.encode())
    except ProfilerMissing as error:
        pytest.skip(str(error))
    image = scheduled(profiler, host, metric_names(list(COUNTERS.values())), len(COUNTERS))
    assert passes_of(profiler, image) <= 8
    profiler.call("cuptiProfilerHostDeinitialize", (ctypes.c_void_p, host))
    assert len(COUNTERS) == 24


@pytest.mark.gpu
def test_what_a_gpu_counts_after_its_launches_were_traced() -> None:
    source = torch.ones(1 << 26, device="cuda")

    def double() -> None:
        source.mul(2)

    assert launch_rows(double, torch.cuda.synchronize, 1)[0]
    try:
        found = hardware_counters.counted(double, torch.cuda.synchronize)
    except ProfilerMissing as error:
        pytest.skip(str(error))
    assert found["dram_read_bytes"] > 0.5 * source.nbytes
    assert 20 < found["dram_pct"] <= 100
    assert launch_rows(double, torch.cuda.synchronize, 1)[0]
