"""The log of a run: one line for each examined sample, append-only, so that a run can be killed at any moment.

A line that was cut off in the middle is dropped when the log is opened again: that sample is examined once more, and nothing else is lost.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bottega.core.errors import UsageError

SYNC_RECORDS, SYNC_SECONDS = 32, 1.0


@dataclass(frozen=True)
class RunRecord:
    index: int
    accepted: bool
    reason: str = ""
    """Why it was dropped, in a word; empty when it was not."""
    detail: str = ""
    eager_ms: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class RunLog:
    def __init__(self, path: Path, terms: dict[str, object]):
        self.path = path
        self.records: dict[int, RunRecord] = {}
        self._unsynced, self._synced_at = 0, time.monotonic()
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
        try:
            self._lock()
            self._read(terms)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError:
            pass
        finally:
            os.close(self._descriptor)

    def append(self, record: RunRecord) -> None:
        self._write(asdict(record))
        self.records[record.index] = record
        self._unsynced += 1
        if self._unsynced >= SYNC_RECORDS or time.monotonic() - self._synced_at >= SYNC_SECONDS:
            self._sync()

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{self.path}: another run is writing here; wait for it, or give another --out") from None

    def _read(self, terms: dict[str, object]) -> None:
        content = b""
        while piece := os.read(self._descriptor, 1 << 22):
            content += piece
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            self._write({"terms": terms})
            self._sync()
            return
        self._compare(lines[0], terms)
        for number, line in enumerate(lines[1:], 2):
            record = self._record(line, number)
            self.records.setdefault(record.index, record)
        os.ftruncate(self._descriptor, whole)
        os.lseek(self._descriptor, whole, os.SEEK_SET)

    def _compare(self, line: bytes, terms: dict[str, object]) -> None:
        try:
            kept = json.loads(line)["terms"]
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{self.path}: is not the log of a synthesis; give another --out") from None
        changed = sorted(name for name in {*kept, *terms} if kept.get(name) != terms.get(name))
        if changed:
            name = changed[0]
            raise UsageError(
                f"{self.path.parent}: holds a run with {name} {kept.get(name)!r}, not {terms.get(name)!r}; "
                "use the same options to go on, or another --out"
            )

    def _record(self, line: bytes, number: int) -> RunRecord:
        try:
            return RunRecord(**json.loads(line))
        except (ValueError, TypeError):
            raise UsageError(f"{self.path}: line {number} is damaged; delete it and what follows, and run again") from None

    def _write(self, value: dict[str, Any]) -> None:
        line = (json.dumps(value, allow_nan=False, default=str) + "\n").encode()
        start = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, start)
            raise UsageError(
                f"{self.path}: cannot be written: {error.strerror}; what was examined so far is kept, run again to go on"
            ) from None

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be written: {error.strerror}; what was examined so far is kept, run again to go on"
            ) from None
        self._unsynced, self._synced_at = 0, time.monotonic()
