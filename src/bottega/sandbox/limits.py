"""How much one cell may use. Kernel limits count per process, so the warden adds up the memory of the tree (see memory.py)."""

from __future__ import annotations

import resource
from dataclasses import dataclass

ADDRESS_SPACE_SLACK = 4 << 30
"""Reserved and never touched: thread stacks, allocator arenas, mapped libraries."""


@dataclass(frozen=True)
class Limits:
    memory_bytes: int = 16 << 30
    """Of the whole process tree."""
    scratch_bytes: int = 1 << 30
    """Size of the private writable file system; shared memory files get as much again."""
    processes: int = 512
    """Processes and threads together."""
    file_bytes: int = 1 << 30
    open_files: int = 4096


def apply_limits(limits: Limits, *, bound_address_space: bool) -> None:
    """Lower the limits of the calling process for good; a bound that is lower already stays.

    A CUDA process reserves address space far beyond its memory, so only a CPU cell is bounded there.
    """
    wanted = {
        resource.RLIMIT_CORE: 1,  # with 0 a program of the host that collects dumps would still be started, outside the cell
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if bound_address_space:
        wanted[resource.RLIMIT_AS] = _address_space_in_use() + limits.memory_bytes + ADDRESS_SPACE_SLACK
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _address_space_in_use() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
