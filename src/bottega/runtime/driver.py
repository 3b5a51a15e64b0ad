"""The few calls of the CUDA driver that loading and launching a kernel take, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import LaunchError, UnavailableError

_STATIC_SHARED_BYTES = 1
_MAX_THREADS_PER_BLOCK = 0
_REGISTERS = 4
_MAX_DYNAMIC_SHARED_BYTES = 8
_DEVICE_SHARED_OPT_IN = 97
_SHARED_WITHOUT_ASKING = 48 * 1024
_NOT_FOUND = 500


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel as loaded on one device."""

    function: int
    context: int
    max_threads: int
    registers: int
    dynamic_shared: int
    """What may be asked for without raising the limit first."""
    most_dynamic_shared: int
    """What the device can give at most."""


@functools.cache
def driver() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnavailableError(
            f"the NVIDIA driver cannot be loaded: {error}; CUDA kernels need a machine with an NVIDIA GPU"
        ) from None
    handle, handles = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    number, numbers = ctypes.c_int, ctypes.POINTER(ctypes.c_int)
    for name, arguments in {
        "cuInit": [ctypes.c_uint],
        "cuDeviceGet": [numbers, number],
        "cuDeviceGetAttribute": [numbers, number, number],
        "cuDevicePrimaryCtxRetain": [handles, number],
        "cuCtxGetCurrent": [handles],
        "cuCtxPushCurrent_v2": [handle],
        "cuCtxPopCurrent_v2": [handles],
        "cuModuleLoadData": [handles, ctypes.c_char_p],
        "cuModuleGetFunction": [handles, handle, ctypes.c_char_p],
        "cuFuncGetAttribute": [numbers, number, handle],
        "cuFuncSetAttribute": [handle, number, number],
        "cuLaunchKernel": [handle, *[ctypes.c_uint] * 7, handle, handle, handle],
        "cuGetErrorName": [number, ctypes.POINTER(ctypes.c_char_p)],
        "cuGetErrorString": [number, ctypes.POINTER(ctypes.c_char_p)],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    checked(library, library.cuInit(0), "starting the CUDA driver")
    return library


def load_entries(image: bytes, names: list[str], device: int) -> dict[str, LoadedKernel]:
    """Load an image into the primary context of a device, which is the one torch uses, and look up the kernels in it.

    The module is never unloaded: a captured graph may hold its kernels longer than any Python object does.
    """
    cuda = driver()
    ordinal, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    checked(cuda, cuda.cuDeviceGet(ctypes.byref(ordinal), device), f"finding CUDA device {device}")
    checked(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal), "retaining the device's context")
    most = ctypes.c_int()
    checked(cuda, cuda.cuDeviceGetAttribute(ctypes.byref(most), _DEVICE_SHARED_OPT_IN, ordinal), "asking for shared memory")
    with current(cuda, context.value or 0):
        checked(cuda, cuda.cuModuleLoadData(ctypes.byref(module), image), "loading the compiled kernels")
        found = {name: _entry(cuda, module, name, context.value or 0, most.value) for name in names}
    return {name: entry for name, entry in found.items() if entry is not None}


def _entry(cuda: ctypes.CDLL, module: ctypes.c_void_p, name: str, context: int, most: int) -> LoadedKernel | None:
    function = ctypes.c_void_p()
    status = cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    if status == _NOT_FOUND:
        return None
    checked(cuda, status, f"looking kernel {name} up")

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        checked(cuda, cuda.cuFuncGetAttribute(ctypes.byref(value), number, function), f"asking about kernel {name}")
        return value.value

    static = attribute(_STATIC_SHARED_BYTES)
    return LoadedKernel(
        function=function.value or 0,
        context=context,
        max_threads=attribute(_MAX_THREADS_PER_BLOCK),
        registers=attribute(_REGISTERS),
        dynamic_shared=min(attribute(_MAX_DYNAMIC_SHARED_BYTES), max(0, _SHARED_WITHOUT_ASKING - static)),
        most_dynamic_shared=most - static,
    )


def raise_shared_limit(entry: LoadedKernel, size: int) -> None:
    cuda = driver()
    with current(cuda, entry.context):
        checked(
            cuda,
            cuda.cuFuncSetAttribute(entry.function, _MAX_DYNAMIC_SHARED_BYTES, size),
            f"asking for {size} bytes of dynamic shared memory (this kernel can have at most {entry.most_dynamic_shared})",
        )


@contextmanager
def current(cuda: ctypes.CDLL, context: int) -> Iterator[None]:
    """Make a context this thread's for a moment; what torch had made current comes back."""
    checked(cuda, cuda.cuCtxPushCurrent_v2(context), "entering the device's context")
    try:
        yield
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def checked(cuda: ctypes.CDLL, status: int, doing: str) -> None:
    if status != 0:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(name))
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise LaunchError(
            f"{(name.value or b'?').decode()} ({status}) while {doing}: {(text.value or b'unknown error').decode()}"
        )
