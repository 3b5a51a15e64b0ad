"""What knob settings were measured before: times by device, shapes and structure, so that none is measured twice, and what they gained at which
places, so that the next search begins with those that promise most.

In a run the log has them. Between runs they are lines of a file beside the skill library, which any run may append to. What was measured on other
devices before Bottega was shipped is known from the start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bottega.compiler.choice_gains import ChoiceGains, MeasuredChoice, shipped_gains
from bottega.core.event import Event, Tuned

FILE = "knobs.jsonl"
KnobKey = tuple[str, str, str, str, str]
"""Device, shapes of the inputs, structure of the kernel, place and label of the setting."""
KEY = ("device", "shape", "structure", "place", "label")


@dataclass
class KnobMemory:
    path: Path | None = None
    _times: dict[KnobKey, float | None] = field(default_factory=dict)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    """What was learned before `gains` was first asked for."""

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):  # a line that was cut off, or of an older form
                self._take([json.loads(line)])

    @cached_property
    def gains(self) -> ChoiceGains:
        found = shipped_gains().copy()
        for row in self._rows:
            _learn(found, row)
        return found

    def read(self, events: Iterable[Event]) -> None:
        """Take over what a run's log has."""
        for event in events:
            if isinstance(event, Tuned):
                self._take(_rows_of(event))

    def known(self, key: KnobKey) -> tuple[bool, float | None]:
        """Whether it was measured, and its milliseconds; None for a setting that is not right."""
        return key in self._times, self._times.get(key)

    def remember(self, event: Tuned) -> None:
        fresh = self._take(_rows_of(event))
        if self.path is None or not fresh:
            return
        lines = "".join(json.dumps(row) + "\n" for row in fresh)
        with suppress(OSError):  # what cannot be kept is measured again
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, lines.encode())
            finally:
                os.close(descriptor)

    def _take(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that were not known."""
        fresh = []
        for row in rows:
            key: KnobKey = tuple(str(row[name]) for name in KEY)  # type: ignore[assignment]
            if key in self._times:
                continue
            self._times[key] = row["ms"]
            self._rows.append(row)
            if "gains" in self.__dict__:
                _learn(self.gains, row)
            fresh.append(row)
        return fresh


def _rows_of(event: Tuned) -> Iterator[dict[str, Any]]:
    """With what each setting gained over the kernel as it was, where its place has sizes: then it tells of other places."""
    for row in event.tried:
        if row["remembered"]:
            continue
        kept = {**dict(zip(KEY[:3], (event.device, event.shape, event.structure))), **{name: row[name] for name in KEY[3:]}}
        kept["ms"] = row["ms"]
        if row.get("sizes") and event.base_ms:
            gain = round(event.base_ms / row["ms"], 4) if row["ms"] else 0.0
            kept |= {
                "dtype": event.dtype,
                "function": row["function"],
                "sizes": row["sizes"],
                "choice": row["label"],
                "gain": gain,
            }
        yield kept


def _learn(gains: ChoiceGains, row: dict[str, Any]) -> None:
    if "gain" in row:
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            gains.add(MeasuredChoice.from_json(row))
