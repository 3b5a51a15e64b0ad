"""Reading of files that someone else may be writing: read-only, never more than is asked for, and nothing that waits or leads elsewhere.

No lock is ever tried, since a run that begins in that moment would find it taken; no link is followed and no pipe is opened. What is in a file
may be anything: fields of data are asked for by type, and are empty where they hold something else.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_TEXT = 1 << 20
MOST_JSON = 32 << 20


@dataclass(frozen=True)
class Stamp:
    """What changes when a file does."""

    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True)
class FileText:
    text: str
    size: int
    """Bytes of the whole file."""
    cut: bool = False


def stamp(path: Path) -> Stamp | None:
    """None where no plain file is."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor to read from. Raises `OSError` for what is no plain file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def read_bytes(path: Path, offset: int = 0, most: int = MOST_TEXT) -> bytes:
    """What is there from an offset on, and no more than so many bytes of it."""
    with opened(path) as descriptor:
        parts, left = [], most
        while left > 0 and (part := os.pread(descriptor, min(left, 1 << 23), offset)):
            parts.append(part)
            offset, left = offset + len(part), left - len(part)
        return b"".join(parts)


def read_text(path: Path) -> FileText | None:
    """None where it cannot be read."""
    try:
        content, found = read_bytes(path), stamp(path)
    except (OSError, ValueError):
        return None
    size = max(found.size if found else 0, len(content))
    return FileText(content.decode("utf-8", "replace"), size, size > len(content))


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object; empty where there is none, or none that can be read."""
    try:
        found = json.loads(read_bytes(path, most=MOST_JSON).decode("utf-8", "surrogatepass"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def text_at(data: Any, *names: str, longest: int = MOST_TEXT) -> str:
    found = _at(data, names)
    return found[:longest] if isinstance(found, str) else ""


def number_at(data: Any, *names: str) -> float | None:
    """A finite number."""
    found = _at(data, names)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:
        return None


def whole_at(data: Any, *names: str) -> int:
    """A whole number that is not negative; 0 where there is none."""
    found = _at(data, names)
    return min(found, 1 << 53) if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def object_at(data: Any, *names: str) -> dict[str, Any]:
    found = _at(data, names)
    return found if isinstance(found, dict) else {}


def list_at(data: Any, *names: str) -> list[Any]:
    found = _at(data, names)
    return found if isinstance(found, list) else []


def _at(data: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if type(data) is not dict:  # asked for every field of every line: the quicker test
            return None
        data = data.get(name)
    return data
