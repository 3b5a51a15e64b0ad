"""The cache of torch extensions: what a candidate's build made, kept for the next time the same candidate is judged on the same task.

Building against torch's headers takes a minute. The archive comes out of a hostile process, so it is only ever unpacked
inside a sandbox, for the very same source and task: a candidate that tampers with it harms only itself. Only the judge's own process
touches the folder. A controller, where the task's code runs, gets one archive as an anonymous file.
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
from typing import Any

from bottega.sandbox.channel import payload_descriptor, room_descriptor

LARGEST_ARCHIVE = 128 << 20
LARGEST_CACHE = 2 << 30


def wants_cache(source: str) -> bool:
    return "cpp_extension" in source or "load_inline" in source


class LentArchive:
    """What a controller gets of the cache for one candidate: a copy of its archive, or room for one."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.kept = path.read_bytes()[:LARGEST_ARCHIVE]
        except OSError:
            self.kept = b""
        self.descriptor = payload_descriptor(self.kept) if self.kept else room_descriptor(LARGEST_ARCHIVE)

    @property
    def message(self) -> dict[str, Any]:
        """What the controller is told of it; the descriptor comes with it."""
        return {"archive": "kept" if self.kept else "empty"}

    def take_back(self, told: Any) -> None:
        """Store what was built, by the controller's word `told`: its number of bytes, or `damaged`."""
        if self.kept and told == "damaged":
            self.path.unlink(missing_ok=True)  # it will be built anew
        elif not self.kept and isinstance(told, int) and 0 < told <= LARGEST_ARCHIVE:
            keep(self.path, os.pread(self.descriptor, told, 0))

    def close(self) -> None:
        os.close(self.descriptor)


def lend(folder: str, task: str, source: str) -> LentArchive | None:
    """None where there is no folder, or the source builds no extension."""
    return LentArchive(archive_path(folder, task, source)) if folder and wants_cache(source) else None


def archive_path(folder: str, task: str, source: str) -> Path:
    """Where the archive for this source on this task lies, for this torch on this machine."""
    identity = "\0".join((task, source, metadata.version("torch"), platform.machine(), platform.python_version()))
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
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_whole_seconds)
    return buffer.getvalue() if total else b""


def _whole_seconds(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A tar file keeps a time as a float, a hundred nanoseconds off. Ninja builds anew what is newer than its own record of it."""
    member.mtime = int(member.mtime)
    return member


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
