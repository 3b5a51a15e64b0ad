"""A temporary folder that is held for as long as its owner lives. Who was killed cannot remove his own, so whoever makes the next one does.

Held is a lock on the folder itself: it ends with its process, whatever the moment, and numbers of processes, which begin anew in containers, do
not matter.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_YOUNG_S = 60.0
"""A folder as young as this may belong to somebody who is about to hold it."""


class HeldFolder:
    def __init__(self, prefix: str) -> None:
        _sweep(prefix)
        self.path = tempfile.mkdtemp(prefix=prefix)
        self._lock = _opened(self.path)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it with all that is in it."""
        _remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _opened(path: str | Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _sweep(prefix: str) -> None:
    oldest = time.time() - _YOUNG_S
    for entry in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if entry.lstat().st_mtime > oldest:
                continue
            lock = _opened(entry)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(entry)
            finally:
                os.close(lock)


def _remove(folder: str | Path) -> None:
    with suppress(RecursionError):  # folders in folders without end, by foreign code
        shutil.rmtree(folder, ignore_errors=True)
