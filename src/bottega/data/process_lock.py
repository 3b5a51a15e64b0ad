"""Starting and ending processes, one at a time.

Whoever starts a process by `multiprocessing` also looks after all that have ended. Of two threads that look after one at once the second finds
nothing left to read, and takes the process for one whose server was lost, with 255 as its exit code.
"""

from __future__ import annotations

import threading
from typing import Any

_LOCK = threading.Lock()


def start(process: Any) -> None:
    with _LOCK:
        process.start()


def ended(process: Any, timeout: float) -> int | None:
    """Its exit code, if it ends within so many seconds."""
    with _LOCK:
        process.join(timeout)
        code: int | None = process.exitcode
    return code
