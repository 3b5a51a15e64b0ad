"""Files that are there whole or not at all: the content is written under another name, flushed to the disk, and renamed."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old content or the new one, also after a crash.

    Raises `OSError` where that is not possible; what was there stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
