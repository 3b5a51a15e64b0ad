"""An index of a file of JSON lines by byte offset: each line is parsed once, what a list needs of it is kept, and the rest is read again when
someone opens it.

The file grows while it is read. Only whole lines are taken; one that is half written is told and comes with the next look. A line that is no
JSON object, or too long for one, is told with its number and passed over. A look reads a bounded part: a log of gigabytes comes bit by bit.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bottega.core.foreign_text import one_line
from bottega.service.dashboard.reading import Stamp, read_bytes, stamp

Row = TypeVar("Row")
BLOCK = 4 << 20
LONGEST_LINE = 32 << 20
MOST_AT_ONCE = 64 << 20
"""Bytes of one look."""
MOST_BROKEN = 100
"""Broken lines that are told one by one; the others are counted."""
HEAD = 64
"""Bytes at the beginning by which another file in the same place is told."""


@dataclass(frozen=True, slots=True)
class IndexedLine(Generic[Row]):
    number: int
    """From 1, as an editor counts."""
    offset: int
    length: int
    row: Row


@dataclass(frozen=True, slots=True)
class BrokenLine:
    number: int
    reason: str


class LineIndex(Generic[Row]):
    """`digest` takes a line's object and gives what is kept of it. Any thread may look at any time."""

    def __init__(self, path: Path, digest: Callable[[dict[str, Any]], Row]) -> None:
        self.path, self._digest = path, digest
        self._lock = threading.Lock()
        self.seen: Stamp | None = None
        self._reset(b"")

    def _reset(self, head: bytes) -> None:
        self._head = head
        self._offset = self._number = 0
        self.lines: list[IndexedLine[Row]] = []
        self.broken: list[BrokenLine] = []
        self.broken_count = 0
        self.unfinished = 0
        """Bytes of a last line that has no end yet."""
        self.unread = 0
        """Bytes that are left for the next look."""
        self._skipping = False

    def refresh(self, most: int = MOST_AT_ONCE) -> LineIndex[Row]:
        """Take in what was added since the last look."""
        with self._lock:
            now = stamp(self.path)
            if now is None:
                self._reset(b"")
                self.seen = None
            elif now != self.seen or self.unread:
                try:
                    self._take(now, most)
                    self.seen = now
                except OSError:  # gone since it was looked at, or not ours to read: what is known stands
                    self.unread = max(0, now.size - self._offset)
        return self

    def _take(self, now: Stamp, most: int) -> None:
        head = read_bytes(self.path, most=HEAD)
        replaced = self.seen is not None and now.inode != self.seen.inode
        if replaced or now.size < self._offset or not head.startswith(self._head[: len(head)]):
            self._reset(head)
        self._head = head
        left = most
        rest, at = b"", self._offset
        while left > 0 and at < now.size:
            block = read_bytes(self.path, at, min(BLOCK, now.size - at))
            if not block:
                break
            at, left = at + len(block), left - len(block)
            rest = self._lines_of(rest + block)
        self.unread = max(0, now.size - at)
        self.unfinished = 0 if self.unread else now.size - self._offset

    def _lines_of(self, content: bytes) -> bytes:
        begin = 0
        while (end := content.find(b"\n", begin)) >= 0:
            self._add(content[begin:end], end + 1 - begin)
            begin = end + 1
        rest = content[begin:]
        if len(rest) > LONGEST_LINE:
            self._skipping = True
            self._offset += len(rest)
            return b""
        return rest

    def _add(self, line: bytes, length: int) -> None:
        self._number += 1
        offset, self._offset = self._offset, self._offset + length
        if self._skipping:
            self._skipping = False
            self._refuse(f"longer than {LONGEST_LINE >> 20} MiB")
            return
        if not line.strip():
            return
        try:
            data = json.loads(line.decode("utf-8", "surrogatepass"))
            if not isinstance(data, dict):
                raise ValueError("is no object")
            self.lines.append(IndexedLine(self._number, offset, length, self._digest(data)))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            self._refuse(one_line(str(error), 120))

    def _refuse(self, reason: str) -> None:
        self.broken_count += 1
        if len(self.broken) < MOST_BROKEN:
            self.broken.append(BrokenLine(self._number, reason))

    def body(self, line: IndexedLine[Row]) -> dict[str, Any]:
        """The whole line, read again; empty where it is no longer there."""
        try:
            found = json.loads(read_bytes(self.path, line.offset, line.length).decode("utf-8", "surrogatepass"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def numbered(self, number: int) -> IndexedLine[Row] | None:
        low, high = 0, len(self.lines)
        while low < high:
            middle = (low + high) // 2
            if self.lines[middle].number < number:
                low = middle + 1
            else:
                high = middle
        return self.lines[low] if low < len(self.lines) and self.lines[low].number == number else None

    def warnings(self) -> list[str]:
        """What a reader of the lines must know."""
        name = self.path.name
        found = [f"{name}: line {each.number} is damaged and left out ({each.reason})" for each in self.broken[:5]]
        if self.broken_count > 5:
            found.append(f"{name}: {self.broken_count - 5} more lines are damaged and left out")
        if self.unfinished:
            found.append(f"{name}: the last line is half written ({self.unfinished:,} bytes); it is shown once it is whole")
        if self.unread:
            found.append(f"{name}: {self.unread:,} bytes are still to be read; they come with the next look")
        return found
