"""The log of a run: one line for each examined sample, append-only, so that a run can be killed at any moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bottega.core.append_log import AppendLog, read_lines
from bottega.core.closing import Closing
from bottega.core.errors import UsageError


@dataclass(frozen=True)
class RunRecord:
    index: int
    accepted: bool
    reason: str = ""
    """Why it was dropped, in a word; empty when it was not."""
    detail: str = ""
    eager_ms: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class RunLog(Closing):
    """The first line holds the terms of the run; one with other terms is another run."""

    def __init__(self, path: Path, terms: dict[str, object]):
        self.path = path
        self.records: dict[int, RunRecord] = {}
        self._log = AppendLog(path)
        try:
            self._log.cut_partial_line()
            self._read(terms)
        except BaseException:
            self._log.close()
            raise

    def close(self) -> None:
        self._log.close()

    def append(self, record: RunRecord) -> None:
        self._log.append(asdict(record))
        self.records[record.index] = record

    def _read(self, terms: dict[str, object]) -> None:
        kept = None
        for number, data in read_lines(self.path, dict):
            if number == 1:
                kept = data.get("terms")
                if not isinstance(kept, dict):
                    raise UsageError(f"{self.path}: is not the log of a synthesis; give another --out")
                self._compare(kept, terms)
                continue
            try:
                record = RunRecord(**data)
            except TypeError:
                raise UsageError(f"{self.path}: line {number} is damaged; delete it, and run again") from None
            self.records.setdefault(record.index, record)
        if kept is None:
            self._log.append({"terms": terms})

    def _compare(self, kept: dict[str, Any], terms: dict[str, object]) -> None:
        for name in sorted(name for name in {*kept, *terms} if kept.get(name) != terms.get(name)):
            raise UsageError(
                f"{self.path.parent}: holds a run with {name} {kept.get(name)!r}, not {terms.get(name)!r}; "
                "use the same options to go on, or another --out"
            )
