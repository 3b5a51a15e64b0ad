"""Waiting for what must happen, however slow this machine is: a test never waits for a time and then looks."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(happened: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not come to that within {seconds:g} s"
        time.sleep(0.005)
