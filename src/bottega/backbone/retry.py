"""Retry policy for servers: timeouts, number of attempts and pauses. It computes pauses and does not sleep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from bottega.core.errors import UsageError


@dataclass(frozen=True)
class RetryPolicy:
    timeout: float = 600.0
    """Seconds by the wall clock that one attempt may take, from connecting to the last byte: an endless answer ends here."""
    deadline: float = 1800.0
    """Seconds for all attempts at one answer and the pauses between them. Waiting for a free place before the first is not counted."""
    attempts: int = 6
    first_pause: float = 1.0
    longest_pause: float = 60.0

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline", "first_pause", "longest_pause"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} is a number of seconds above 0, not {value!r}")
        if self.attempts < 1:
            raise UsageError(f"attempts must be 1 or more, not {self.attempts!r}")

    def pause(self, attempt: int, asked: float | None, chance: float) -> float:
        """Seconds after a failed attempt (the first is 1): twice as long each time, and never less than the server asked for.

        `chance`, sampled evenly from 0 to 1, spreads requests that failed together, so that they do not come back together.
        """
        backoff = min(self.longest_pause, self.first_pause * 2.0 ** min(attempt - 1, 32)) * (0.5 + chance / 2)
        return max(backoff, asked * (1 + chance / 10)) if asked is not None else backoff


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to be left alone: `Retry-After` as a number or a date, or its variant in milliseconds."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    moment = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
