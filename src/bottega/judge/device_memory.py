"""GPU memory shared by file descriptor, through the driver's virtual-memory calls.

`cudaIpcGetMemHandle` ties processes together by their place in the system; an exported descriptor is a plain file
that travels over a socket into any sandbox.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

_POSIX_DESCRIPTOR = 1
_PINNED = 1
_ON_DEVICE = 1
_READ_WRITE = 3


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationFlags(ctypes.Structure):
    _fields_ = [
        ("compression", ctypes.c_ubyte),
        ("rdma_capable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("requested_handles", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _AllocationFlags),
    ]


class _AccessDescription(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class DeviceMemoryError(RuntimeError):
    """A driver call failed; the text names the call and the driver's error code."""


def _driver(name: str, *arguments: Any) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if code != 0:
        raise DeviceMemoryError(f"{name} failed with driver error {code}" + (" (out of memory)" if code == 2 else ""))


class DeviceMemory:
    """One mapped allocation on the current device."""

    def __init__(self, handle: int, size: int, ordinal: int):
        self.size = size
        self.handle = ctypes.c_ulonglong(handle)
        self.pointer = ctypes.c_ulonglong(0)
        self.ordinal = ordinal
        _driver(
            "cuMemAddressReserve",
            ctypes.byref(self.pointer),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            ctypes.c_ulonglong(0),
            0,
        )
        _driver("cuMemMap", self.pointer, ctypes.c_size_t(size), ctypes.c_size_t(0), self.handle, ctypes.c_ulonglong(0))
        access = _AccessDescription(_Location(_ON_DEVICE, ordinal), _READ_WRITE)
        _driver("cuMemSetAccess", self.pointer, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))

    @classmethod
    def create(cls, capacity: int) -> DeviceMemory:
        torch.zeros(1, device="cuda")  # makes the primary context current
        ordinal = torch.cuda.current_device()
        properties = _AllocationProperties(
            type=_PINNED, requested_handles=_POSIX_DESCRIPTOR, location=_Location(_ON_DEVICE, ordinal)
        )
        granularity = ctypes.c_size_t(0)
        _driver("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), 0)
        size = -(-capacity // granularity.value) * granularity.value
        handle = ctypes.c_ulonglong(0)
        _driver("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_ulonglong(0))
        return cls(handle.value, size, ordinal)

    @classmethod
    def attach(cls, descriptor: int, capacity: int) -> DeviceMemory:
        torch.zeros(1, device="cuda")
        ordinal = torch.cuda.current_device()
        properties = _AllocationProperties(
            type=_PINNED, requested_handles=_POSIX_DESCRIPTOR, location=_Location(_ON_DEVICE, ordinal)
        )
        granularity = ctypes.c_size_t(0)
        _driver("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), 0)
        handle = ctypes.c_ulonglong(0)
        _driver("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), _POSIX_DESCRIPTOR)
        return cls(handle.value, -(-capacity // granularity.value) * granularity.value, ordinal)

    def export(self) -> int:
        descriptor = ctypes.c_int(-1)
        _driver("cuMemExportToShareableHandle", ctypes.byref(descriptor), self.handle, _POSIX_DESCRIPTOR, ctypes.c_ulonglong(0))
        os.set_inheritable(descriptor.value, False)
        return descriptor.value

    def tensor(self, capacity: int) -> torch.Tensor:
        return torch.as_tensor(_Bytes(self.pointer.value, capacity), device=f"cuda:{self.ordinal}")

    def close(self) -> None:
        if self.pointer.value:
            torch.cuda.synchronize()
            _driver("cuMemUnmap", self.pointer, ctypes.c_size_t(self.size))
            _driver("cuMemAddressFree", self.pointer, ctypes.c_size_t(self.size))
            _driver("cuMemRelease", self.handle)
            self.pointer = ctypes.c_ulonglong(0)


class _Bytes:
    """The interface by which torch takes foreign device memory without copying it."""

    def __init__(self, pointer: int, size: int):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3}
