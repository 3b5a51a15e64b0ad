"""Counters by perf: of the threads that are there and those that they start, only while they are on. A software counter stands for the hardware's,
which virtual machines do not have."""

from __future__ import annotations

import mmap
import os
import threading

import pytest

from bottega.sandbox import perf_counters
from bottega.sandbox.perf_counters import PerfCounters

PAGES = 500
SOFTWARE, PAGE_FAULTS = 1, 2


def touch() -> None:
    """As many page faults as it has pages, or more."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1


@pytest.fixture
def page_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_counters, "EVENTS", {"faults": (SOFTWARE, PAGE_FAULTS)})
    if not PerfCounters([threading.get_native_id()]).stop():
        pytest.skip("perf events are not allowed here")


@pytest.mark.usefixtures("page_faults")
def test_what_happens_while_they_are_on_is_counted_in_threads_that_begin_too() -> None:
    counters = PerfCounters([threading.get_native_id()])
    touch()
    counters.count(True)
    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()
    counters.count(False)
    touch()
    assert PAGES <= counters.stop()["faults"] < 2 * PAGES


@pytest.mark.usefixtures("page_faults")
def test_counters_leave_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    PerfCounters([threading.get_native_id()]).stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_counter_that_the_machine_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_counters, "EVENTS", {"none": (77, 0)})
    assert PerfCounters([threading.get_native_id()]).stop() == {}


def test_too_many_threads_are_not_counted() -> None:
    assert PerfCounters(range(1, perf_counters.MOST_THREADS + 2)).stop() == {}
