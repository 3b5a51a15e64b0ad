"""Control of the device around timed calls: flush caches, occupy it as a call begins, measure its memory rate, record clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from bottega.judge.nvml import gpu_conditions

CALL_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 0.001, 0.0018
LAUNCHES_HIDDEN = 2.0
"""A hold lasts so many times as long as the host needs to launch the reference's work, between these two: a decoder layer of forty small kernels
takes half a millisecond to a whole one. After 2 ms the device turns to another process all the same (seen on an H200)."""
NOMINAL_CYCLES = 2_000_000
"""About as long on recent GPUs, and longer on slow ones: never less, because a hold that is too short does not hide a slow launch."""
DELIVERY_HOLD_NS = 500_000
"""The device is held once more, right behind a call (`barrier`), while the worker learns where its outputs go: otherwise a
candidate that postponed work until then could do it for free while an honest worker's host enqueues its copy. Shorter: the copy is all there is
to enqueue."""
SPIN_SECONDS = 0.002
THREADS_BESIDE_A_GPU = 2
"""Of torch's own on the host. As many as there are cores, in each of a judge's many processes, would keep all of them waiting."""


def initialise_device(device: str) -> None:
    """Create the process's context, and load the kernels that every call needs: each takes milliseconds when it is first used."""
    if device == "cpu":
        return
    torch.cuda._sleep(1)
    numbers = torch.zeros(1024, device=device)
    numbers.view(torch.uint8).fill_(255)
    numbers.view(torch.int64).fill_(1)
    numbers[::2].copy_(numbers[1::2].clone())
    torch.equal(numbers, numbers.clone())
    torch.equal(numbers.view(torch.uint8), numbers.view(torch.uint8).clone())
    torch.cuda.synchronize()


class DeviceControl:
    def __init__(self, device: str):
        self.device = device
        self._rates: dict[str, float] = {}
        if device != "cpu":
            self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
            # Before anything large exists: the allocator would cut it out of what held the first inputs, and keep all of that.
            self.flushing = torch.empty(2 * self.l2_bytes // 4 + (1 << 20), dtype=torch.int32, device="cuda")
            self._hold_cycles = NOMINAL_CYCLES
        self.hold_ns = 0
        """How long a hold lasts; 0 on a CPU, which is not held, and before it is known."""

    def calibrate(self, enqueued_ns: int) -> None:
        """Find out how fast the device counts, and hold it long enough for a host that takes so long to launch the reference's work. Only with the
        device alone: what others do meanwhile would make every hold too short, and then a slow launch counts that should be hidden."""
        if self.device != "cpu":
            rate = _cycles_per_second()
            seconds = min(max(CALL_HOLD_SECONDS, LAUNCHES_HIDDEN * enqueued_ns / 1e9), LONGEST_HOLD_SECONDS)
            self._hold_cycles = max(NOMINAL_CYCLES, int(seconds * rate))
            self.hold_ns = int(1e9 * self._hold_cycles / rate)

    def synchronize(self) -> None:
        """Wait until the controller's own work on the device is done."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def flush_caches(self) -> None:
        """Make the caches cold, then wait. On a CPU the inputs were just written and are warm for both runners alike; there the
        wait is for the controller's own worker threads, which spin for a while after they have copied something."""
        if self.device == "cpu":
            time.sleep(SPIN_SECONDS)
            return
        reset_persisting_l2()
        self.flushing.zero_()
        torch.cuda.synchronize()

    def hold_call(self) -> None:
        """Occupy the device while the worker wakes up and enqueues its work.

        Another process's work waits until this ends, so how long a launch takes on the host is hidden on both runners alike,
        as it is in a program that runs ahead of its device; and no worker can start early.
        """
        if self.device != "cpu":
            torch.cuda._sleep(self._hold_cycles)

    def rates(self) -> dict[str, float]:
        """Measured once: bytes a second through memory (read plus written). By every task for itself: what its process says holds for no other."""
        if not self._rates:
            elements = (1 << 23) if self.device == "cpu" else (1 << 25)
            source = torch.ones(elements, dtype=torch.float32, device=self.device)
            target = torch.empty_like(source)
            best = float("inf")
            for _ in range(4):
                best = min(best, self._seconds_of(lambda: target.copy_(source)))
            self._rates = {"bytes_per_second": 2 * source.nbytes / best}
            del source, target
            if self.device != "cpu":
                torch.cuda.empty_cache()
        return self._rates

    def _seconds_of(self, work: Callable[[], object]) -> float:
        if self.device == "cpu":
            begun = time.perf_counter()
            work()
            return time.perf_counter() - begun
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        work()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    def conditions(self) -> dict[str, Any]:
        """The management library counts all GPUs, also those that are hidden from this process."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return gpu_conditions(int(visible) if visible.isdecimal() else 0) if self.device != "cpu" else {}


def _cycles_per_second() -> float:
    """How fast the device counts, at the clock it runs at now: the quickest of some tries, for whatever comes in between slows them."""
    cycles = 4_000_000
    seconds = []
    for _ in range(4):
        begun = time.perf_counter()
        torch.cuda._sleep(cycles)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return cycles / min(seconds)


def reset_persisting_l2() -> None:
    """Lines that a candidate asked the L2 cache to keep would survive the flush."""
    import ctypes

    ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
