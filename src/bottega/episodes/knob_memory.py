"""Times of knob settings that were measured before, by device, shapes and structure: a setting that is known is not measured again.

In a run the log has them. Between runs they are lines of a file beside the skill library, which any run may append to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bottega.core.event import Event, Tuned

FILE = "knobs.jsonl"
KnobKey = tuple[str, str, str, str, str]
"""Device, shapes of the inputs, structure of the kernel, place and label of the setting."""


@dataclass
class KnobMemory:
    path: Path | None = None
    _times: dict[KnobKey, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError):  # a line that was cut off
                *key, milliseconds = json.loads(line)
                if len(key) == 5:
                    self._times[tuple(key)] = milliseconds

    def read(self, events: Iterable[Event]) -> None:
        """Take over what a run's log has."""
        for event in events:
            if isinstance(event, Tuned):
                self._times.update(_rows(event))

    def known(self, key: KnobKey) -> tuple[bool, float | None]:
        """Whether it was measured, and its milliseconds; None for a setting that is not right."""
        return key in self._times, self._times.get(key)

    def remember(self, event: Tuned) -> None:
        fresh = {key: value for key, value in _rows(event).items() if key not in self._times}
        self._times.update(fresh)
        if self.path is None or not fresh:
            return
        lines = "".join(json.dumps([*key, value]) + "\n" for key, value in fresh.items())
        with suppress(OSError):  # what cannot be kept is measured again
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, lines.encode())
            finally:
                os.close(descriptor)


def _rows(event: Tuned) -> dict[KnobKey, float | None]:
    return {
        (event.device, event.shape, event.structure, row["place"], row["label"]): row["ms"]
        for row in event.tried
        if not row["remembered"]
    }
