"""The profile of a verdict: what rows of a hostile process come to, occupancy, the bottleneck in a sentence, and a real one on the CPU."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottega.core.device import DeviceFacts
from bottega.judge import profile_stage
from bottega.judge.cupti import LaunchRecord, launch_record, summed_launches
from bottega.judge.judge import Judge
from bottega.judge.machine_code import counted
from bottega.judge.profile import occupancy, profile_of
from bottega.judge.worker_link import RunnerFailed
from bottega.languages import candidate_from
from bottega.tasks.load import load_task

CPU = DeviceFacts("cpu", "a cpu", "x86_64 avx2", 8, 16.0)
GPU = DeviceFacts("cuda", "a gpu", "sm_90", 132, 140.0, shared_kib=227.0, registers=65536)
FACTS = {"input_bytes": 10**9, "output_bytes": 10**9, "bytes_per_second": 2e12}
ROOT = Path(__file__).parents[2]


def launch(**changes: Any) -> list[Any]:
    row = {
        "name": "void scale(float*)",
        "us": 900.0,
        "count": 1.0,
        "registers": 32,
        "grid": [132, 1, 1],
        "block": [256, 1, 1],
        "shared": 0,
        "local": 0,
    }
    return list({**row, **changes}.values())


def on_cpu(**raw: Any) -> dict[str, Any]:
    given = {"threads": 7.9, "instructions": {"256": 60, "0": 40}, "operations": 0, "peak_operations": 1e11, **raw}
    return profile_of(given, {"candidate": 10.0, "floor": 1.0}, FACTS, CPU)


def on_gpu(rows: Any, gaps: Any = 10.0, own: float = 10.0) -> dict[str, Any]:
    raw = {"launches": rows, "gaps_us": gaps, "operations": 0, "peak_operations": 5e13}
    return profile_of(raw, {"candidate": own, "floor": 1.0}, FACTS, GPU)


def test_what_the_machine_counted_on_a_cpu() -> None:
    counted = {"cache_misses": 30.0, "cache_references": 100.0, "instructions": 50.0, "cycles": 100.0}
    found = on_cpu(counters=counted)
    assert (found["cache_misses"], found["cache_miss_share"], found["instructions_per_cycle"]) == (30, 0.3, 0.5)
    assert found["bottleneck"].startswith("30% of its accesses to the cache miss")
    few = on_cpu(counters={**counted, "cache_misses": 1.0})
    assert few["bottleneck"].startswith("Far from both roofs")
    assert (on_cpu()["cache_misses"], on_cpu()["instructions_per_cycle"]) == (None, None), "a machine that counts nothing"
    assert on_cpu(counters={"cache_misses": "many", "cycles": -1})["cache_misses"] is None


def test_what_the_warps_of_a_gpu_wait_for() -> None:
    raw = {"launches": [launch()], "gaps_us": 1.0, "operations": 0, "peak_operations": 5e13}
    counted = {"stalled_on_memory": 6.25, "stalled_at_barriers": 1.5, "dram_pct": 31.23456, "unknown": 3.0}
    found = profile_of({**raw, "counters": counted}, {"candidate": 10.0, "floor": 1.0}, FACTS, GPU)
    assert found["counters"] == {"stalled_on_memory": 6.25, "stalled_at_barriers": 1.5, "dram_pct": 31.23}
    assert found["bottleneck"].startswith("6.2 warps wait for loads from memory")
    missing = {**raw, "not_counted": "the driver counts for root alone"}
    found = profile_of(missing, {"candidate": 10.0, "floor": 1.0}, FACTS, GPU)
    assert (found["counters"], found["not_counted"]) == ({}, "the driver counts for root alone")
    assert "far from both roofs" in found["bottleneck"]


def test_what_a_cpu_kernel_uses_of_its_machine() -> None:
    found = on_cpu()
    assert (found["threads"], found["cores"], found["vector_bits"], found["vector_share"]) == (7.9, 8, 256, 0.6)
    assert (found["gbs"], found["peak_gbs"]) == (200.0, 2000.0)
    assert found["gflops"] is None
    assert on_cpu(operations=10**8)["gflops"] == 10.0


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({"threads": 1.0}, "1.0 of 8 cores"),
        ({"instructions": {"0": 100}}, "scalar"),
        ({"operations": 9 * 10**8}, "Bound by arithmetic"),
        ({}, "Far from both roofs"),
    ],
)
def test_the_bottleneck_of_a_cpu_kernel(raw: dict[str, Any], wanted: str) -> None:
    assert wanted in on_cpu(**raw)["bottleneck"]


@pytest.mark.parametrize(
    ("row", "gaps", "own", "wanted"),
    [
        ({}, 10.0, 1.1, "Bound by memory"),
        ({}, 9000.0, 10.0, "pass between its 1 launches"),
        ({"local": 64}, 10.0, 10.0, "spills 64 bytes"),
        ({"registers": 255, "block": [128, 1, 1], "shared": 200_000}, 10.0, 10.0, "limited by shared memory"),
        ({}, 10.0, 10.0, "scale takes 900 us"),
    ],
)
def test_the_bottleneck_of_a_gpu_kernel(row: dict[str, Any], gaps: float, own: float, wanted: str) -> None:
    assert wanted in on_gpu([launch(**row)], gaps, own)["bottleneck"]


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "wanted"),
    [
        (32, 256, 0, (1.0, "registers")),
        (64, 256, 0, (0.5, "registers")),
        (255, 256, 0, (0.125, "registers")),
        (32, 32, 0, (0.5, "blocks")),
        (32, 256, 100_000, (0.25, "shared memory")),
        (32, 0, 0, (None, "")),
    ],
)
def test_theoretical_occupancy_and_what_limits_it(
    registers: int, threads: int, shared: int, wanted: tuple[float | None, str]
) -> None:
    assert occupancy(registers, threads, shared, GPU) == wanted


@pytest.mark.parametrize(
    "rows",
    [
        None,
        5,
        "x",
        [1],
        [[]],
        [["a"] * 8],
        [launch(us=float("nan"))],
        [launch(grid=[1, 1])],
        [launch(registers=-1)],
        [launch(block="abc")],
    ],
)
def test_what_a_hostile_process_sends_is_left_out(rows: Any) -> None:
    found = on_gpu(rows, gaps="many")
    assert found["kernels"] == []
    assert found["gaps_us"] is None
    assert on_cpu(instructions=rows)["vector_share"] is None


@pytest.mark.parametrize("width", ["²", "9" * 4000, "9" * 5000, "-1", "", "0128"])
def test_a_width_that_no_vector_has_is_left_out(width: str) -> None:
    assert on_cpu(instructions={width: 7, "256": 60, "0": 40}) == on_cpu()


def test_a_record_of_cupti_is_read_at_its_offsets() -> None:
    data = bytearray(112)
    struct.pack_into("<H", data, 6, 40)
    struct.pack_into("<QQ", data, 16, 1000, 3500)
    struct.pack_into("<6i", data, 52, 7, 2, 1, 128, 1, 1)
    struct.pack_into("<3i", data, 76, 1024, 2048, 16)
    assert launch_record(bytes(data), "k") == LaunchRecord(1000, 3500, "k", 40, (7, 2, 1), (128, 1, 1), 3072, 16)


def test_launches_are_summed_by_kernel_and_gaps_by_call() -> None:
    def record(start: int, end: int, name: str) -> LaunchRecord:
        return LaunchRecord(start, end, name, 32, (1, 1, 1), (32, 1, 1), 0, 0)

    calls = [record(0, 4000, "a"), record(6000, 7000, "b"), record(90_000, 94_000, "a"), record(97_000, 98_000, "b")]
    rows, gaps = summed_launches(calls, 2)
    assert [row[:3] for row in rows] == [["a", 4.0, 1.0], ["b", 1.0, 1.0]]
    assert gaps == 2.5, "the time between two calls is none of the candidate's"
    assert summed_launches([], 2) == ([], 0.0)


def test_instructions_are_counted_by_their_width() -> None:
    x86 = "vmulps %ymm1,%ymm2,%ymm3\nvaddss %xmm0,%xmm1,%xmm2\nvfmadd231ps %zmm1,%zmm2,%zmm3\nmov %rax,%rbx\nmulpd %xmm1,%xmm2"
    assert counted(x86) == {256: 1, 0: 1, 512: 1, 128: 1}
    assert counted("fmul\tv0.4s, v1.4s, v2.4s\nfadd\ts0, s1, s2\nfmla\tz0.s, p0/m, z1.s\nldr\tq0, [x1]") == {128: 1, 0: 1, 1: 1}


@pytest.mark.rotates
def test_a_verdict_has_a_profile_when_it_asks_for_one(judge: Judge) -> None:
    task, candidate = load_task("builtin:star_relu"), candidate_from((ROOT / "examples/star_relu.py").read_text())
    verdict = judge.judge(task, candidate, profile=True)
    assert verdict.outcome.accepted, verdict.diagnosis
    profile = verdict.profile
    assert profile["gbs"] > 0
    assert profile["threads"] >= 0.9
    assert profile["peak_gflops"] > 0
    assert profile["bottleneck"] in verdict.diagnosis
    assert type(verdict).from_json(verdict.to_json()) == verdict
    assert judge.judge(task, candidate).profile == {}


DYING = """import os
import subprocess

run = subprocess.run


def ended(*words, **options):
    if "objdump" in str(words):
        os._exit(3)
    return run(*words, **options)


subprocess.run = ended
"""


@pytest.mark.rotates
def test_a_candidate_that_dies_while_it_is_profiled_keeps_its_verdict(judge: Judge) -> None:
    source = DYING + (ROOT / "examples/star_relu.py").read_text()
    verdict = judge.judge(load_task("builtin:star_relu"), candidate_from(source), profile=True)
    assert verdict.outcome.accepted, verdict.diagnosis
    assert verdict.profile == {}


@pytest.mark.parametrize("kind", ["died", "timeout", "failure"])
def test_a_process_that_ends_while_it_counts_keeps_the_rest_of_its_profile(kind: str) -> None:
    asked = []

    def ask(message: dict[str, Any], deadline: float) -> dict[str, Any]:
        asked.append(deadline)
        if message.get("counters"):
            raise RunnerFailed(kind)
        return {"launches": [launch()], "gaps_us": 1.0}

    runner = SimpleNamespace(ask=ask, run_call=lambda inputs, options: None)
    end = time.monotonic() + 900
    context = SimpleNamespace(device="cuda", draw=lambda: None, baselines={"eager": runner})
    run = SimpleNamespace(runner=runner, context=context, budget=SimpleNamespace(end=end), options=lambda timed: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_stage, "product_rate", lambda device: 1e12)
        found = profile_stage.measure_profile(run)  # type: ignore[arg-type]
    assert found["launches"] and found["not_counted"] == f"the process ended over it: {kind}"
    assert asked[-1] < end - 800, "what is no part of a decision must not take all its time"


def test_want_of_memory_for_a_profile_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def short_of_memory(run: Any) -> dict[str, Any]:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(profile_stage, "_measured", short_of_memory)
    assert profile_stage.measure_profile(None) == {}  # type: ignore[arg-type]
