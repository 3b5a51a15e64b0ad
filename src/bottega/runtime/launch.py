"""Compiles a CUDA string and launches its `extern "C"` kernels on torch's current stream.

Everything that can be prepared is, when the source is compiled: a launch packs its arguments and makes one driver call.
It allocates nothing on the device and waits for nothing, so it may be captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .arguments import converters, wrong_argument_count
from .driver import LoadedKernel, checked, current, driver, load_entries, raise_shared_limit
from .errors import ArgumentError, CompileError, UnavailableError
from .nvrtc import compile_cuda
from .signature import Signature, read_signatures

Extent = int | Sequence[int]


def cuda(source: str, options: Sequence[str] = ()) -> Kernels:
    """Compile `source` for torch's current device and load it. `options` are NVRTC's: `-DN=4`, `--use_fast_math`."""
    import torch

    if not torch.cuda.is_available():
        raise UnavailableError(
            "torch sees no CUDA device; CUDA kernels need an NVIDIA GPU, its driver and a CUDA build of torch"
        )
    torch.cuda.init()
    options = tuple(options.split()) if isinstance(options, str) else tuple(options)
    kernels = Kernels(source, options)
    kernels._load(torch.cuda.current_device())
    return kernels


class Kernels:
    """The `extern "C" __global__` functions of one source, as attributes."""

    def __init__(self, source: str, options: tuple[str, ...]) -> None:
        self._recipe = (source, options)
        self._entries: dict[int, dict[str, LoadedKernel]] = {}
        self._found: list[str] = []
        self._refused: dict[str, str] = {}

    def _load(self, device: int) -> dict[str, LoadedKernel]:
        """Compile for a device, load there, and make the kernels attributes. A second device comes with its first tensor."""
        import torch

        source, options = self._recipe
        image = compile_cuda(source, options, torch.cuda.get_device_capability(device))
        signatures = read_signatures(source)
        names = [name for name, signature in signatures.items() if signature is None or signature.kernel]
        if not names:
            raise CompileError('no kernel was found in the source; write one as: extern "C" __global__ void name(...) {...}')
        self._entries[device] = load_entries(image, names, device)
        for name in self._entries[device]:
            signature = signatures[name]
            if signature is None:
                self._refused[name] = "it is declared twice with different parameters"
            elif name not in self._found:
                setattr(self, name, Kernel(self, signature, _stream_of(torch)))
                self._found.append(name)
        return self._entries[device]

    def _entry(self, name: str, device: int) -> LoadedKernel:
        return (self._entries.get(device) or self._load(device))[name]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__") or "_refused" not in self.__dict__:
            raise AttributeError(name)
        if name in self._refused:
            raise ArgumentError(f"{name} cannot be launched from Python: {self._refused[name]}")
        known = ", ".join(self._found)
        raise AttributeError(f'no extern "C" __global__ function {name!r} was found in the source (found: {known})')

    def __reduce__(self) -> tuple[Any, ...]:
        return cuda, self._recipe


class Kernel:
    """One kernel: `kernel(grid, block, *arguments, shared=0)`, where grid and block are a number or up to three."""

    def __init__(self, kernels: Kernels, signature: Signature, stream_of: Callable[[int], int]) -> None:
        self.signature = signature
        self._kernels = kernels
        self._stream_of = stream_of
        self._launch = driver().cuLaunchKernel
        self._context_of_thread = driver().cuCtxGetCurrent
        self._converters = converters(signature, "cuda")
        self._count = len(signature.parameters)
        self._pointers = tuple(i for i, parameter in enumerate(signature.parameters) if parameter.type.pointers)
        layout, offsets = parameter_layout(signature)
        self._pack = struct.Struct(layout).pack_into
        self._slots = _Slots(offsets)
        self._loaded: dict[int, LoadedKernel] = {}
        self._shared_limits: dict[int, int] = {}

    def __call__(self, grid: Extent, block: Extent, *arguments: Any, shared: int = 0) -> None:
        if len(arguments) != self._count:
            raise wrong_argument_count(self.signature, len(arguments))
        values = [convert(value) for convert, value in zip(self._converters, arguments)]
        device = self._device(arguments)
        entry = self._loaded.get(device)
        if entry is None:
            entry = self._loaded[device] = self._kernels._entry(self.signature.name, device)
            self._shared_limits[device] = entry.dynamic_shared
        if type(grid) is list or type(block) is list:
            grid, block = _hashable(grid), _hashable(block)
        extents = _extents(grid, block)
        if shared > self._shared_limits[device]:
            raise_shared_limit(entry, shared)
            self._shared_limits[device] = shared
        slots = self._slots
        self._pack(slots.buffer, 0, *values)
        self._context_of_thread(slots.context_reference)
        if slots.context.value == entry.context:
            status = self._launch(entry.function, *extents, shared, self._stream_of(device), slots.address, None)
        else:  # a thread that has not used the device yet, or tensors on a device that is not the current one
            with current(driver(), entry.context):
                status = self._launch(entry.function, *extents, shared, self._stream_of(device), slots.address, None)
        if status != 0:
            self._explain(status, entry, extents, shared)

    def _device(self, arguments: tuple[Any, ...]) -> int:
        """The device of the tensors, which must be one; without any, torch's current device."""
        device = None
        for position in self._pointers:
            value = arguments[position]
            if value is not None and type(value) is not int:
                here: int = value.get_device()
                if device is None:
                    device = here
                elif here != device:
                    raise ArgumentError(
                        f"{self.signature.name} got tensors of cuda:{device} and cuda:{here}; they must share a device"
                    )
        if device is None:
            import torch

            return torch.cuda.current_device()
        return device

    def _explain(self, status: int, entry: LoadedKernel, extents: tuple[int, ...], shared: int) -> None:
        checked(
            driver(),
            status,
            f"launching {self.signature.name} with grid {extents[:3]}, block {extents[3:]}, {shared} bytes of dynamic memory "
            f"(this kernel: at most {entry.max_threads} threads per block and {entry.most_dynamic_shared} bytes, "
            f"{entry.registers} registers per thread; a grid at most 2147483647 x 65535 x 65535; "
            "an illegal access or a misaligned address was made by a kernel launched earlier)",
        )

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._kernels, self.signature.name)


class _Slots(threading.local):
    """Where a thread packs the arguments of a launch, and the addresses that the driver reads them from."""

    def __init__(self, offsets: list[int]) -> None:
        self.buffer = (ctypes.c_uint64 * (offsets[-1] // 8 + 1))()
        base = ctypes.addressof(self.buffer)
        self.addresses = (ctypes.c_void_p * len(offsets))(*[base + offset for offset in offsets])
        self.address = ctypes.addressof(self.addresses)
        self.context = ctypes.c_void_p()
        self.context_reference = ctypes.byref(self.context)


def parameter_layout(signature: Signature) -> tuple[str, list[int]]:
    """A `struct` format that lays the arguments out as a kernel's, and the offset of each and of the end."""
    layout, offsets, position = "<", [], 0
    for parameter in signature.parameters:
        code = parameter.type.code or "Q"
        size = struct.calcsize("<" + code)
        padding = -position % size
        layout += f"{padding}x{code}" if padding else code
        offsets.append(position + padding)
        position += padding + size
    return layout, [*offsets, position]


@functools.lru_cache(maxsize=4096, typed=True)
def _extents(grid: Extent, block: Extent) -> tuple[int, ...]:
    """Grid and block as six numbers. Remembered, because a kernel is mostly launched with the same ones."""
    return *_three(grid, "grid"), *_three(block, "block")


def _three(extent: Extent, what: str) -> tuple[int, int, int]:
    try:
        numbers = [operator.index(extent)] if not isinstance(extent, Sequence) else [operator.index(n) for n in extent]
    except TypeError:
        raise ArgumentError(f"{what} must be whole numbers, but is {extent!r}; use // to divide") from None
    if not 1 <= len(numbers) <= 3:
        raise ArgumentError(f"{what} must be one to three numbers, but is {extent!r}")
    if min(numbers) < 1:
        raise ArgumentError(f"{what} is {extent!r}; each number must be at least 1 (launch nothing for an empty tensor)")
    x, y, z = (*numbers, 1, 1)[:3]
    if x >= 2**31 or max(y, z) > 65535:
        raise ArgumentError(
            f"{what} is {extent!r}; at most are 2147483647 x 65535 x 65535: count along the first axis, or let each block do more"
        )
    return x, y, z


def _hashable(extent: Any) -> Any:
    return tuple(extent) if isinstance(extent, list) else extent


def _stream_of(torch: Any) -> Callable[[int], int]:
    """Torch's current stream as the driver's handle, by the short way where torch has it."""
    short: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return short or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))
