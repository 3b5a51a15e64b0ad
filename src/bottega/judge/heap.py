"""A heap that costs the same however long a process has lived.

Whether a large allocation takes page faults depends on what the C library's allocator saw before, and page faults can cost
more than the kernel being timed: the same code then looks faster in an older process. Candidate and baseline get a heap that is
touched once and never given back.
"""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_BLOCK = 16 << 20
SMALLEST_RESERVE, LARGEST_RESERVE = 64 << 20, 512 << 20


def reserve_for(room: int) -> int:
    """Bytes of heap for a worker whose arenas have `room` bytes when it is given the first."""
    return min(LARGEST_RESERVE, max(SMALLEST_RESERVE, 16 * room))


def steady_heap(reserve: int) -> None:
    """Keep `reserve` bytes of heap resident. Does nothing where the C library has no such knobs."""
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        libc.malloc.restype = ctypes.c_void_p
        blocks = [libc.malloc(ctypes.c_size_t(_BLOCK)) for _ in range(max(1, reserve // _BLOCK))]
        for block in blocks:
            if block:
                ctypes.memset(block, 0, _BLOCK)
        for block in blocks:
            libc.free(ctypes.c_void_p(block))
