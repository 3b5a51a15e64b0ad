"""The cache of torch extensions: what a candidate's build made, kept for the next time the same candidate is judged.

Building against torch's headers takes a minute. The archive comes out of a hostile process, so it is only ever unpacked
inside a sandbox, for the very same source: a candidate that tampers with it harms only itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import platform
import secrets
import tarfile
from importlib import metadata
from pathlib import Path

LARGEST_ARCHIVE = 128 << 20
LARGEST_CACHE = 2 << 30


def wants_cache(source: str) -> bool:
    return "cpp_extension" in source or "load_inline" in source


def archive_path(folder: str, source: str) -> Path:
    """Where the archive for this source lies, for this torch on this machine."""
    identity = "\0".join((source, metadata.version("torch"), platform.machine(), platform.python_version()))
    return Path(folder) / "extensions" / f"{hashlib.sha256(identity.encode()).hexdigest()}.tar"


def pack(folder: str) -> bytes:
    """The built files, or nothing when there are none or too many."""
    buffer = io.BytesIO()
    total = 0
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
                if total > LARGEST_ARCHIVE // 2:
                    return b""
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)
    return buffer.getvalue() if total else b""


def unpack(data: bytes, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")


def keep(path: Path, data: bytes) -> None:
    """Store an archive atomically, and let the oldest go when there are too many. A full disk loses only the archive."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(f".{secrets.token_hex(8)}.tmp")  # processes in other name spaces may have our number
        temporary.write_bytes(data)
        temporary.replace(path)
        archives = sorted(
            path.parent.iterdir(), key=lambda each: each.stat().st_mtime
        )  # also what a killed one left half written
        surplus = sum(each.stat().st_size for each in archives) - LARGEST_CACHE
        for each in archives:
            if surplus <= 0:
                break
            surplus -= each.stat().st_size
            each.unlink()
