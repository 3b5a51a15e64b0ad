"""Files that are there whole or not at all: the content is written under another name, flushed to the disk, and renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
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
