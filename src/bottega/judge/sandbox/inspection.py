"""Reading the memory of a stopped process, for a supervisor that is asked what its child still holds.

What a candidate maps there cannot keep the reader waiting: a cell has no userfaultfd and no FUSE, and the amount is bounded.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

Region = tuple[int, int]
"""Address and length in bytes."""
MOST_BYTES = 1 << 20
MOST_REGIONS = 4096
_REGION = struct.Struct("<QQ")


class Unreadable(Exception):
    """The text says which region, and why."""


def pack(regions: Sequence[Region]) -> bytes:
    """ValueError when they are too many or too large, or no regions."""
    if len(regions) > MOST_REGIONS or sum(length for _, length in regions) > MOST_BYTES:
        raise ValueError(f"at most {MOST_REGIONS} regions of {MOST_BYTES} bytes in all can be read at a time")
    try:
        return b"".join(_REGION.pack(address, length) for address, length in regions)
    except struct.error:
        raise ValueError("a region is an address and a length, neither of them negative") from None


def unpack(packed: bytes) -> list[Region]:
    regions = [(address, length) for address, length in _REGION.iter_unpack(packed)]
    if len(regions) > MOST_REGIONS or sum(length for _, length in regions) > MOST_BYTES:
        raise Unreadable("too much was asked for")
    return regions


def read(process: int, regions: Sequence[Region]) -> bytes:
    """Their contents one after the other. /proc/PID/mem also shows what the process has forbidden itself to read."""
    try:
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"the memory of the cell cannot be opened ({error.strerror})") from None
    try:
        return b"".join(_read(memory, address, length) for address, length in regions)
    finally:
        os.close(memory)


def _read(memory: int, address: int, length: int) -> bytes:
    content = b""
    while len(content) < length:
        try:
            part = os.pread(memory, length - len(content), address + len(content))
        except (OSError, OverflowError) as error:
            raise Unreadable(f"{length} bytes at {address:#x} cannot be read ({error})") from None
        if not part:
            raise Unreadable(f"{length} bytes at {address:#x} do not lie in the process")
        content += part
    return content
