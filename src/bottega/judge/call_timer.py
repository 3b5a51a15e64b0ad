"""How a worker times its own calls: precise, and forgeable by the module in the same process."""

from __future__ import annotations

import time
from typing import Protocol

import torch


class CallTimer(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def elapsed(self) -> int:
        """Nanoseconds between start and stop."""

    def worked(self) -> int:
        """For how many of them this thread was on a core; 0 where a device does the work."""

    def enqueued(self) -> int:
        """How long the host took to launch all of the call's work; 0 where no device does it."""

    def outside(self, begun: int, ended: int) -> int:
        """Nanoseconds from `begun` to `ended` that are not between start and stop; 0 where the device is held meanwhile."""


class HostTimer:
    def start(self) -> None:
        self.working = time.thread_time_ns()
        self.begun = time.perf_counter_ns()

    def stop(self) -> None:
        self.ended = time.perf_counter_ns()
        self.rested = time.thread_time_ns()

    def elapsed(self) -> int:
        return self.ended - self.begun

    def worked(self) -> int:
        return self.rested - self.working

    def enqueued(self) -> int:
        return 0

    def outside(self, begun: int, ended: int) -> int:
        return max(0, ended - begun - self.elapsed())


class DeviceTimer:
    """Device events: read only after the device has caught up."""

    def __init__(self) -> None:
        self.begun = torch.cuda.Event(enable_timing=True)
        self.ended = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        # An event that follows a memory copy is stamped by the copy engine, at once, also while the controller still holds the
        # device; one that follows a kernel is stamped when kernels may run.
        torch.cuda._sleep(1)
        self.begun.record()
        self.launching = time.perf_counter_ns()

    def stop(self) -> None:
        self.launched = time.perf_counter_ns()
        self.ended.record()

    def elapsed(self) -> int:
        return int(self.begun.elapsed_time(self.ended) * 1e6)

    def worked(self) -> int:
        return 0

    def enqueued(self) -> int:
        return self.launched - self.launching

    def outside(self, begun: int, ended: int) -> int:
        return 0
