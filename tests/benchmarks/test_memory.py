"""The memory benchmark: tasks of the asked size, processes by role, and a peak that a real child process makes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from large_tasks import measured
from memory import KINDS, Row, Sampler, by_role, parents_of_all, resident, role_of, settled

from bottega.core.task import Task
from bottega.judge.nvml import gpu_memory, gpu_processes

CHILD = "import sys, time\nheld = bytearray(200_000_000)\nheld[::4096] = bytes(len(held[::4096]))\nprint('here', flush=True)\nsys.stdin.read()\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [64 * 10**6, 12_800 * 10**6])
def test_tasks_have_the_size_that_was_asked_for(kind: str, floor: int) -> None:
    task = Task(KINDS[kind](floor)).validate()
    taken = measured(task.source)
    assert 0.9 * floor < taken.inputs + taken.outputs < 1.1 * floor


def test_the_bound_is_four_times_the_tensors_and_what_the_reference_needs() -> None:
    row = Row("norm", 1000, 70, 5000, {}, "same", 1.0, 3)
    assert row.bound == 4000 + 70 + 2 * 2**30


def test_a_process_that_waits_for_the_next_candidate_is_told_apart() -> None:
    parts = by_role({"referee 0": 30, "candidate 2": 5, "candidate 3": 9, "eager 1": 7})
    assert parts == {"referee": 30, "eager": 7, "candidate": 9, "judge": 0, "ready": 5}
    assert Row("norm", 1000, 0, 51, parts, "same", 1.0, 3).own == 46


def test_roles_are_inherited_from_the_nearest_ancestor() -> None:
    own = os.getpid()
    parents = {own: 1, 10**7: own, 10**7 + 1: 10**7, 10**7 + 2: 10**7 + 1, 10**7 + 3: 1}
    roots = {10**7 + 1: "referee"}
    assert [role_of(10**7 + n, parents, roots) for n in range(4)] == ["judge", "referee", "referee", ""]
    assert role_of(own, parents, roots) == ""


def test_a_childs_memory_is_seen_and_who_holds_it() -> None:
    with Sampler("cpu", []) as sampler:
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        assert parents_of_all()[child.pid] == os.getpid() and resident(child.pid) > 190_000_000
        deadline = time.monotonic() + 30
        while sampler.peak.total < 190_000_000 and time.monotonic() < deadline:
            time.sleep(0.02)
        child.communicate()
    assert sampler.peak.total > 190_000_000 and sampler.peak.parts["judge"] == sampler.peak.total


def test_what_is_still_ending_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([900, 500, 300, 300])
    monkeypatch.setattr("memory.gpu_memory", lambda index: (1000, next(readings)))
    monkeypatch.setattr("memory.time.sleep", lambda seconds: None)
    assert settled(0) == 300


@pytest.mark.gpu
def test_the_driver_tells_a_devices_memory() -> None:
    total, used = gpu_memory(0) or (0, 0)
    assert total > 2**30 and 0 < used <= total
    assert all(size >= 0 for _, size in gpu_processes(0))


def test_without_the_library_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bottega.judge.nvml._library", lambda: None)
    assert gpu_memory(0) is None and gpu_processes(0) == []
