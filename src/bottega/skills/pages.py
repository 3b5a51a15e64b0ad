"""Reads rows directly from the leaf pages of a SQLite file, for recovery when interior pages are damaged.

Only leaves of tables are looked at, as https://www.sqlite.org/fileformat2.html describes them. Nothing says which table a leaf belongs
to, or whether it is still in use: whoever asks must know a row when it sees one.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Any

SIZE = 4096
"""Of a page: what SQLite takes unless told otherwise, and nobody tells it otherwise here."""
_LEAF = 13
_WHOLE = SIZE - 35
_LEAST = (SIZE - 12) * 32 // 255 - 23
_NUMBERS = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of an integer, by its type."""


def rows_of_pages(data: bytes | mmap, columns: int) -> Iterator[tuple[int, list[Any]]]:
    """Number and values of every row with so many columns."""
    for start in range(0, len(data) - SIZE + 1, SIZE):
        head = start + 100 if start == 0 else start
        if data[head] != _LEAF:
            continue
        count = int.from_bytes(data[head + 3 : head + 5], "big")
        for place in range(head + 8, min(head + 8 + 2 * count, start + SIZE - 1), 2):
            try:
                row = _row(data, start + int.from_bytes(data[place : place + 2], "big"), columns)
            except (ValueError, IndexError):
                continue
            if row is not None:
                yield row


def _row(data: bytes | mmap, place: int, columns: int) -> tuple[int, list[Any]] | None:
    length, place = _varint(data, place)
    number, place = _varint(data, place)
    local = length
    if length > _WHOLE:
        local = _LEAST + (length - _LEAST) % (SIZE - 4)
        local = local if local <= _WHOLE else _LEAST
    payload = data[place : place + local]
    kinds, end = _kinds(payload, columns)
    sizes = [_size(kind) for kind in kinds]
    # Noise fails here, before other pages are read for it.
    if len(kinds) != columns or end + sum(sizes) != length:
        return None
    if local < length:
        payload += _overflow(data, int.from_bytes(data[place + local : place + local + 4], "big"), length - local)
    values = []
    for kind, size in zip(kinds, sizes):
        values.append(_value(kind, payload[end : end + size]))
        end += size
    return number, values


def _kinds(payload: bytes, most: int) -> tuple[list[int], int]:
    """The types of a row's values, and where the values begin."""
    end, place = _varint(payload, 0)
    kinds: list[int] = []
    while place < end and len(kinds) <= most:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    return kinds, place


def _size(kind: int) -> int:
    return _NUMBERS[kind] if kind < 7 else 8 if kind == 7 else 0 if kind < 12 else (kind - 12) // 2


def _overflow(data: bytes | mmap, following: int, length: int) -> bytes:
    """What did not fit on the leaf, from a chain of other pages."""
    rest = bytearray()
    while len(rest) < length:
        if not 1 < following <= len(data) // SIZE:
            raise ValueError("leads nowhere")
        page = (following - 1) * SIZE
        rest += data[page + 4 : page + min(SIZE, 4 + length - len(rest))]
        following = int.from_bytes(data[page : page + 4], "big")
    return bytes(rest)


def _value(kind: int, part: bytes) -> Any:
    if kind in (8, 9):
        return kind - 8
    if 1 <= kind <= 6:
        return int.from_bytes(part, "big", signed=True)
    if kind >= 12:
        return part if kind % 2 == 0 else part.decode()
    return None


def _varint(data: bytes | mmap, place: int) -> tuple[int, int]:
    value = 0
    for step in range(9):
        byte = data[place + step]
        if step == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + step + 1
    raise ValueError("no number")
