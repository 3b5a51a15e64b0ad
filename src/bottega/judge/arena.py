"""Memory that the judge owns and a child may map: inputs go in, outputs come back, nothing else is shared.

On a CPU it is a sealed anonymous file (a child cannot shrink it under the judge); on a GPU it is a driver allocation
exported as a file descriptor, which, unlike the older IPC handles, crosses namespaces.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

import torch

F_ADD_SEALS = 1033
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1, 2, 4


class Arena:
    """`base` is the whole of it as bytes; `descriptor` is what another process needs to map it."""

    def __init__(self, device: str, capacity: int, descriptor: int, base: torch.Tensor, owner: object):
        self.device = device
        self.capacity = capacity
        self.descriptor = descriptor
        self.base = base
        self._owner = owner
        """Keeps the mapping alive for as long as `base` may be used."""

    @classmethod
    def create(cls, device: str, capacity: int) -> Arena:
        capacity = -(-max(capacity, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        if device == "cpu":
            descriptor = os.memfd_create("bottega-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(descriptor, capacity)
            fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            return cls.attach(device, capacity, descriptor)
        from bottega.judge.device_memory import DeviceMemory

        memory = DeviceMemory.create(capacity)
        return cls(device, capacity, memory.export(), memory.tensor(capacity), memory)

    @classmethod
    def attach(cls, device: str, capacity: int, descriptor: int) -> Arena:
        """Map an arena that another process created. The descriptor stays the caller's."""
        if device == "cpu":
            mapping = mmap.mmap(descriptor, capacity, mmap.MAP_SHARED)
            return cls(device, capacity, descriptor, torch.frombuffer(mapping, dtype=torch.uint8), mapping)
        from bottega.judge.device_memory import DeviceMemory

        memory = DeviceMemory.attach(descriptor, capacity)
        return cls(device, capacity, descriptor, memory.tensor(capacity), memory)

    def close(self) -> None:
        """Give the memory back. No view of it may be used after this."""
        self.base = torch.empty(0, dtype=torch.uint8)
        close = getattr(self._owner, "close", None)
        self._owner = None
        if close is not None:
            with contextlib.suppress(BufferError):
                close()
        os.close(self.descriptor)
