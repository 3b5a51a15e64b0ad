"""The end of a call on a GPU, found by a kernel of the controller's that is queued on the device before the call is over.

The worker's device writes a flag into shared memory, in stream order, when the module's work is done. The controller's kernel waits behind that
work, because the device finishes what one process has enqueued before it switches to another process. If the kernel finds the flag, it poisons the
inputs and goes on occupying the device; if not, the controller launches it again. So the end of the work admits the kernel, however early the flag
was written: a worker that writes it early saves no launch, no message and no wake-up. (An H200 turns to the other process after 2 ms all the same:
of longer work the kernel comes in between, and what is left behind an early flag is part of the delivery, which is timed too.) The end of a
delivery is found in the same way; there the kernel only reads. From then on until the worker is stopped, empty kernels are launched one after
another: what the worker has the device do meanwhile, for its next call, makes some of them late. (A single kernel that stays on the device does
not see it: the device does not turn to the other process in the moment before the next one.)
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from bottega.judge.arena import Arena
from bottega.judge.poison import POISON_WORD
from bottega.runtime.launch import cuda

THREADS = 1024
SPINS_BETWEEN_LOOKS = 4096
"""How often to read the answer before looking at the time."""
LATE_NS = 15_000
"""A kernel is late that comes so much later than usual: a device that turns to another process and back takes longer than this."""
LAST_LOOKS = 20
"""Empty kernels after the worker was stopped: the device may still have its work in the queue."""

# All words are saved before any is overwritten: random blocks may overlap.
SOURCE = """
extern "C" __global__ void __launch_bounds__(1024) apply_if_flagged(
    const volatile long long* flag, long long expected, long long* words, const long long* places, long long count,
    long long* saved, long long poison, int read_only, long long hold_ns, volatile long long* answer, long long number)
{
    __shared__ int flagged;
    if (threadIdx.x == 0) flagged = *flag == expected;
    __syncthreads();
    if (flagged) {
        for (long long i = threadIdx.x; i < count; i += blockDim.x) saved[i] = words[places[i]];
        __syncthreads();
        if (!read_only)
            for (long long i = threadIdx.x; i < count; i += blockDim.x) words[places[i]] = poison;
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    *answer = flagged ? number : -number;
    __threadfence_system();
    if (!flagged) return;
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < (unsigned long long)hold_ns);
}

extern "C" __global__ void only_answer(volatile long long* answer, long long number)
{
    *answer = number;
    __threadfence_system();
}
"""


def flag_value(event: str, nonce: int) -> int:
    """What the worker's device writes when a call has `returned`, and when its delivery is `done`."""
    return nonce if event == "returned" else -1 - nonce


class BarrierTarget(Protocol):
    """Words to save, `places` counted from `address`, and to overwrite too unless `read_only`."""

    address: int
    places: torch.Tensor
    saved: torch.Tensor
    read_only: bool


class BarrierTimeout(Exception):
    """The device did not run the controller's kernel before the deadline."""


class Barrier:
    def __init__(self, device: str):
        self.flag = Arena.create(device, 8)
        """Written by the worker's device. The worker maps it; its value is a number that only one call has."""
        self.flag.base.zero_()
        self._kernels = _kernels()
        self._answer = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._seen = ctypes.c_longlong.from_address(self._answer.data_ptr())
        self._number = 0
        self._quickest = 10**9
        """Nanoseconds from the launch of an empty kernel to its answer, at best."""

    def apply(self, target: BarrierTarget, expected: int, hold_ns: int, deadline: float) -> bool:
        """Launch the kernel and wait for its answer: whether the flag had the expected value. If so, the target was saved and overwritten, and
        the device stays occupied for `hold_ns`."""
        self._number += 1
        self._kernels.apply_if_flagged(
            1,
            THREADS,
            self.flag.base.data_ptr(),
            expected,
            target.address,
            target.places.data_ptr(),
            target.places.numel(),
            target.saved.data_ptr(),
            POISON_WORD,
            int(target.read_only),
            hold_ns,
            self._answer.data_ptr(),
            self._number,
        )
        return self._was_flagged(deadline)

    def watch(self, over: Callable[[], bool], deadline: float) -> int:
        """Launch empty kernels one after another until it is `over`, and some more. Returns how many nanoseconds they were late by: the device did
        something else meanwhile."""
        waits: list[int] = []
        last = 0
        while last < LAST_LOOKS:
            last += bool(last or over())
            self._number += 1
            launched = time.perf_counter_ns()
            self._kernels.only_answer(1, 1, self._answer.data_ptr(), self._number)
            self._was_flagged(deadline)
            waits.append(time.perf_counter_ns() - launched)
            if time.monotonic() > deadline:
                raise BarrierTimeout
        self._quickest = min(self._quickest, *waits)
        return lateness(waits, self._quickest)

    def _was_flagged(self, deadline: float) -> bool:
        """Wait for the answer of the kernel that was launched last."""
        number, seen = self._number, self._seen
        while True:
            for _ in range(SPINS_BETWEEN_LOOKS):
                answer = seen.value
                if answer == number:
                    return True
                if answer == -number:
                    return False
            if time.monotonic() > deadline:
                raise BarrierTimeout

    def close(self) -> None:
        torch.cuda.synchronize()
        self.flag.close()


def lateness(waits: Sequence[int], quickest: int) -> int:
    """By how much the late ones of these are later than usual. A worker that delays most of them does not change what is usual."""
    usual = min(sorted(waits)[len(waits) // 4], 2 * quickest)
    return sum(wait - usual for wait in waits if wait > usual + LATE_NS)


@functools.cache
def _kernels() -> Any:
    return cuda(SOURCE)
