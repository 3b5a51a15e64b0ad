"""Reading and overwriting the memory of a stopped process, for a supervisor that is asked what its child still holds, and that acts for a
caller who writes into what it was given.

What a candidate maps there cannot keep the reader waiting: a cell has no userfaultfd and no FUSE, and the amount is bounded.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Iterable, Sequence

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


def overwrite(process: int, regions: Sequence[Region]) -> None:
    """Fill them with bytes that read as NaN in every floating type. Only where they are the process's alone: a private view of a file would be
    changed and the file would not, and with it whatever else shows the file."""
    try:
        with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as maps:
            mine = _private(maps)
        memory = os.open(f"/proc/{process}/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"the memory of the cell cannot be opened ({error.strerror})") from None
    try:
        for address, length in regions:
            place = bisect.bisect_right(mine, (address, 1 << 64)) - 1
            if place < 0 or address + length > mine[place][1]:
                raise Unreadable(f"{length} bytes at {address:#x} are not the process's own")
            if os.pwrite(memory, b"\xff" * length, address) != length:
                raise Unreadable(f"{length} bytes at {address:#x} cannot be written")
    except (OSError, OverflowError) as error:
        raise Unreadable(f"the memory of the cell cannot be written ({error})") from None
    finally:
        os.close(memory)


def _private(maps: Iterable[str]) -> list[Region]:
    """Beginning and end of what is mapped privately and from no file, in order; neighbours are one."""
    found: list[Region] = []
    for line in maps:
        where, rights, _, _, inode, *_ = line.split()
        begin, end = (int(part, 16) for part in where.split("-"))
        if rights[3] != "p" or inode != "0":
            continue
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    return found
