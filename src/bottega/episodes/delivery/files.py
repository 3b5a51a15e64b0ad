"""Files of a run directory: written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from bottega.core.atomic_file import write_atomic
from bottega.core.errors import BottegaError
from bottega.core.json_text import strict


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
