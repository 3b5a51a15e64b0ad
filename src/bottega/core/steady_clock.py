"""The time of day when the clock was made, and what has passed since: nobody who sets the machine's clock makes a later moment an earlier one."""

from __future__ import annotations

import time


class SteadyClock:
    def __init__(self) -> None:
        self._begun = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._begun + time.monotonic()
