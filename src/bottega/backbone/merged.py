"""The embedded model with a delta added to it, kept in the user's cache folder so that only the first start has to add.

What is kept is named by the hashes of base and delta and by its own checksum: a file that was damaged is noticed and made again, one that
was half written has no name yet. A cache that cannot be written is no reason to stop; the next start only takes longer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from bottega.backbone.delta import Header, apply_delta, read_header, state_of
from bottega.backbone.embedded import read_embedded, require_embedded_file
from bottega.core.files import file_sha256

KEPT = 2
"""Models in the cache; older ones make room."""
_SUFFIX, _TEMPORARY = ".safetensors", ".temporary-"
_ABANDONED_AFTER_S = 3600.0


def cache_folder() -> Path | None:
    """`$BOTTEGA_CACHE`, or the user's cache folder; none where no home directory is known."""
    named = os.environ.get("BOTTEGA_CACHE")
    if named:
        return Path(named)
    with contextlib.suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bottega" / "models"
    return None


def name_of(header: Header) -> str:
    """How a model with this delta is called: by its base and by what was added."""
    return f"{header.base} + {header.card.get('name') or 'difference'}"


def read_merged(delta: Path) -> tuple[Any, Any, str]:
    """Model, tokenizer and name. Raises `BackboneError` where the delta is damaged, or not for this base."""
    base = require_embedded_file()
    header, digest = read_header(delta)
    base_digest = file_sha256(base)
    key = hashlib.sha256(f"{base_digest} {digest}".encode()).hexdigest()[:32]
    stored = _stored(key)
    if stored is not None:
        model, tokenizer = read_embedded(base, stored)
        return model, tokenizer, name_of(header)
    model, tokenizer = read_embedded(base)
    apply_delta(model, delta, base_digest)
    _store(key, model)
    return model, tokenizer, name_of(header)


def _checksum(path: Path) -> str:
    """Against accidents only, and three times as fast as a hash: half a gigabyte is read at every start."""
    found = 0
    with open(path, "rb") as file:
        while part := file.read(1 << 24):
            found = zlib.crc32(part, found)
    return f"{found:08x}"


def _stored(key: str) -> dict[str, Any] | None:
    """The weights that were kept, if they still have the checksum that their file is named by."""
    folder = cache_folder()
    for entry in sorted(folder.glob(f"{key}-*{_SUFFIX}")) if folder is not None and folder.is_dir() else ():
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is made again
            if _checksum(entry) == entry.stem.rpartition("-")[2]:
                from safetensors.torch import load_file

                found: dict[str, Any] = load_file(entry)
                os.utime(entry)
                return found
        with contextlib.suppress(OSError):
            entry.unlink()
    return None


def _store(key: str, model: Any) -> None:
    folder = cache_folder()
    if folder is None:
        return
    temporary: Path | None = None
    try:
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
        os.close(handle)
        temporary = Path(name)
        save_file({name: value.contiguous() for name, value in state_of(model).items()}, temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, folder / f"{key}-{_checksum(temporary)}{_SUFFIX}")
    except Exception:  # safetensors has its own kind of error for a full disk
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _sweep(folder: Path) -> None:
    """Remove temporary files of processes that were killed, and all but the newest models."""
    oldest = time.time() - _ABANDONED_AFTER_S
    models = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    temporaries = [path for path in folder.glob(_TEMPORARY + "*") if path.stat().st_mtime < oldest]
    for path in [*models[KEPT - 1 :], *temporaries]:
        with contextlib.suppress(OSError):
            path.unlink()
