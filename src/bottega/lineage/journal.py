"""A lineage run's log: append-only, one record a line, each under a key and done once.

A run that was killed is started again by the same command, walks the same way, and takes from here what was finished.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bottega.core.append_log import AppendLog, read_lines
from bottega.core.closing import Closing
from bottega.core.errors import UsageError

FILE = "lineage.jsonl"
Record = dict[str, Any]


class LineageJournal(Closing):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = AppendLog(folder / FILE)
        try:
            self._log.cut_partial_line()
            self._done = read_records(folder)
        except BaseException:
            self._log.close()
            raise
        self.listeners: list[Callable[[str, Record], None]] = []

    def close(self) -> None:
        self._log.close()

    def once(self, key: str, make: Callable[[], Record]) -> Record:
        """What was done under this key, or what `make` does now; on the disk before anyone is told."""
        if key not in self._done:
            record = {"key": key, "at": round(time.time(), 3), **make()}
            self._log.append(record)
            self._done[key] = record
            for listener in self.listeners:
                listener(key, record)
        return self._done[key]

    def renew(self, key: str, made: Record) -> None:
        """What is concluded from other records: told again where it has become something else, because the rules for it are newer."""
        known = {name: value for name, value in self._done.get(key, {}).items() if name not in ("key", "at")}
        if known != json.loads(json.dumps(made)):
            self._done.pop(key, None)
            self.once(key, lambda: made)

    def begin(self, terms: Record) -> None:
        """Raises `UsageError` where the folder holds a run of something else. A sibling may join a run that had none: no step depends on it."""
        before = self.once("started", lambda: terms)
        differing = [name for name, value in terms.items() if name != "fingerprint" and before.get(name, value) != value]
        if differing == ["sibling"] and not before["sibling"]:
            self.renew("started", terms)
        elif differing:
            raise UsageError(
                f"{self.folder}: holds a lineage with another {differing[0].replace('_', ' ')}; give another --out, or the same command as before"
            )


def read_records(folder: Path) -> dict[str, Record]:
    """By key, in the order in which they were written."""
    return {record["key"]: record for _, record in read_lines(folder / FILE, _keyed)}


def _keyed(data: Record) -> Record:
    if not isinstance(data["key"], str):
        raise ValueError("its key is no text")
    return data
