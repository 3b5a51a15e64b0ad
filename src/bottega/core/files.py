"""Files that are there whole or not at all: the content is written under another name, flushed to the disk, and renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
import threading
from pathlib import Path
from typing import Any

from bottega.core.errors import BottegaError


def strict(value: Any) -> Any:
    """The value without NaN and infinities, which are none in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


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


def write(path: Path, text: str) -> None:
    """In place of what is there, in one step: a reader sees the old text or the new one, also after a crash."""
    try:
        write_atomic(path, encoded(text))
    except OSError as error:
        raise BottegaError(
            f"{path}: cannot be written ({error.strerror}); make room or give another --out, then --resume"
        ) from None


def read_regular(path: Path, most: int = 1 << 32) -> bytes:
    """A file of a folder that may be a stranger's. `OSError` for one of more bytes, and for what is none: a pipe that nobody writes to, or a link to
    what has no end, would be read for ever."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read(most)


def encoded(text: str) -> bytes:
    """UTF-8, with a mark in place of half a surrogate pair, which models do write."""
    return text.encode("utf-8", "replace")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def json_text(value: Any) -> str:
    return json.dumps(strict(value), ensure_ascii=False, indent=2) + "\n"


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
