"""Facts about a device that a kernel writer needs: names and sizes, nothing that changes while it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class DeviceFacts:
    kind: str
    """`cpu` or `cuda`."""
    name: str
    arch: str
    """`sm_90`, or the instruction sets of a CPU that matter here: `x86_64 avx2 avx512f`."""
    cores: int
    """Streaming multiprocessors, or the threads that a kernel may use."""
    memory_gib: float
    bandwidth_gbs: float | None = None
    """Of the device's memory, where it is known."""
    cache_mib: float | None = None
    """The last level that all cores share."""
    shared_kib: float | None = None
    """Shared memory that one block may have; the private cache of a core on a CPU."""
    registers: int | None = None
    """Of one streaming multiprocessor."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def slow_types() -> frozenset[str]:
    """The halves that this CPU's library has no products of: torch's own loop is a hundred times slower than fp32's."""
    checks = {"bfloat16": "_is_mkldnn_bf16_supported", "float16": "_is_mkldnn_fp16_supported"}
    return frozenset(dtype for dtype, check in checks.items() if not _says(check))


def _says(check: str) -> bool:
    import torch  # only those who ask have it anyway

    try:
        return bool(getattr(torch.ops.mkldnn, check)())
    except (AttributeError, RuntimeError):  # a torch without oneDNN
        return False
