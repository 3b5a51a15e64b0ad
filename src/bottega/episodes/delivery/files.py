"""Files of a run directory: written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from bottega.core.errors import BottegaError


def write(path: Path, text: str) -> None:
    """In place of what is there, in one step: a reader sees the old text or the new one, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(encoded(text))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
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


def strict(value: Any) -> Any:
    """JSON as other parsers know it: no NaN, no infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value
