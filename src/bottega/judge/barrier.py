"""Where a call on a GPU ends: one kernel of the referee's, which is on the device's queue before the call is over.

A side's device writes a word into shared memory, in the order of its stream, when the module's work is done. The referee's kernel
waits its turn behind that work, for the device finishes what one process has enqueued before it takes up another's. If it
finds the word, it spoils the inputs and goes on holding the device; if not, the referee launches it again. So the end of the work
lets it in, however early the word was written: whoever says it early saves no launch, no message and no waking up. The end of a
delivery is found in the same way; there the kernel only looks.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any, Protocol

import torch

from bottega.judge.arena import Arena
from bottega.judge.poison import GARBAGE
from bottega.runtime.launch import cuda

THREADS = 1024
SPINS_BETWEEN_LOOKS = 4096
"""How often to read the answer before looking at the time."""

# What is kept is read before anything is overwritten: random blocks may overlap.
SOURCE = """
extern "C" __global__ void __launch_bounds__(1024) strike(
    const volatile long long* word, long long expected, long long* words, const long long* places, long long count,
    long long* kept, long long garbage, int harmless, long long hold_ns, volatile long long* answer, long long number)
{
    __shared__ int said;
    if (threadIdx.x == 0) said = *word == expected;
    __syncthreads();
    if (said) {
        for (long long i = threadIdx.x; i < count; i += blockDim.x) kept[i] = words[places[i]];
        __syncthreads();
        if (!harmless)
            for (long long i = threadIdx.x; i < count; i += blockDim.x) words[places[i]] = garbage;
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    *answer = said ? number : -number;
    __threadfence_system();
    if (!said) return;
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < (unsigned long long)hold_ns);
}
"""


class Target(Protocol):
    """Words to keep, `places` counted from `address`, and to overwrite too unless `harmless`."""

    address: int
    places: torch.Tensor
    kept: torch.Tensor
    harmless: bool


class Overdue(Exception):
    """The device did not take up the referee's work before the deadline."""


class Fence:
    def __init__(self, device: str):
        self.word = Arena.create(device, 8)
        """What the side's device writes to. The side maps it; what stands there is a number that only one turn has."""
        self.word.base.zero_()
        self._strike = _kernel()
        self._answer = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._seen = ctypes.c_longlong.from_address(self._answer.data_ptr())
        self._number = 0

    def strike(self, target: Target, word: int, hold_ns: int, deadline: float) -> bool:
        """When the device has come round to it: was the word there? Then the target is struck, and for `hold_ns` the device is held."""
        self._number += 1
        number, seen = self._number, self._seen
        self._strike(
            1,
            THREADS,
            self.word.base.data_ptr(),
            word,
            target.address,
            target.places.data_ptr(),
            target.places.numel(),
            target.kept.data_ptr(),
            GARBAGE,
            int(target.harmless),
            hold_ns,
            self._answer.data_ptr(),
            number,
        )
        while True:
            for _ in range(SPINS_BETWEEN_LOOKS):
                answer = seen.value
                if answer == number:
                    return True
                if answer == -number:
                    return False
            if time.monotonic() > deadline:
                raise Overdue

    def close(self) -> None:
        torch.cuda.synchronize()
        self.word.close()


@functools.cache
def _kernel() -> Any:
    return cuda(SOURCE).strike
