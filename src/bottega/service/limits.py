"""What one token may ask for: how large, how often, how much of the queue, how long. Pure, apart from the clock that is handed in."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from bottega.core.settings import Section

ENVELOPE = 1 << 16
"""Bytes of a request beside its sources."""
ESCAPED = 2
"""How much longer than its text a source may be as JSON: line ends and quotation marks take two characters."""


class TokenLimits(Section):
    source_kib: Annotated[int, Field(ge=1, le=1024)] = 256
    """KiB of one source, task or candidate; the judge itself takes 1024 at most."""
    requests_per_minute: Annotated[int, Field(ge=1)] = 600
    """Requests of every kind in any minute."""
    connections: Annotated[int, Field(ge=1)] = 100
    """Requests under way at a time, waiting ones and streams of events included."""
    queue_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of the queue that may be this token's."""
    seconds: Annotated[float, Field(gt=0)] = 900.0
    """Seconds that judging one request may take, all in all; then it is ended."""
    seconds_per_hour: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds of judging in any hour; further requests are refused until there is room, and waiting ones wait."""
    own_tasks: bool = False
    """May send tasks of its own. A task is trusted with its verdicts, as its code runs beside the judge's: only for people whom you trust."""

    @property
    def source_bytes(self) -> int:
        return self.source_kib << 10

    @property
    def body_bytes(self) -> int:
        """The largest request that is read at all."""
        return 2 * ESCAPED * self.source_bytes + ENVELOPE


OF_LOOPBACK = TokenLimits(
    source_kib=1024,
    requests_per_minute=1_000_000,
    connections=10_000,
    queue_share=1.0,
    seconds=86_400,
    seconds_per_hour=1e9,
    own_tasks=True,
)
"""Whoever reaches a server without tokens works on the machine that it runs on."""


class RateLimiter:
    """Requests of each name in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: dict[str, deque[float]] = {}

    def wait(self, name: str, most: int) -> float:
        """Counts a request. Above zero: it is one too many, and there is room again in so many seconds."""
        now, times = self._clock(), self._times.setdefault(name, deque())
        while times and times[0] <= now - 60.0:
            times.popleft()
        if len(times) >= most:
            return times[0] + 60.0 - now
        times.append(now)
        return 0.0
