"""The cache of compiled baselines, kept between runs: one folder for each task, device and version of the compilers.

A folder of its own for each task keeps a task from touching what another one rests on, and can go as a whole when the cache is full:
inductor and Triton write each file under another name and rename it, but do not expect half of what they wrote to be gone. A lock on
the folder says that it is in use; the system lets go of it when its holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import threading
from pathlib import Path

from bottega.core.task import Task
from bottega.judge.fingerprint import fingerprint
from bottega.judge.settings import Settings

LARGEST_CACHE = 4 << 30
COMPILERS = ("machine", "python", "torch", "triton", "compiler", "cpu", "gpu")
"""Parts of a machine's fingerprint that change what a compiler makes, or which of several kernels it finds fastest."""
_LOCK, _GOING = ".lock", ".going"


def folder_name(task: Task, settings: Settings) -> str:
    """The same for everything that compiles to the same: baselines of one task share a folder, and tell their files apart themselves."""
    found = fingerprint(settings.device)
    identity = [task.id, settings.device.partition(":")[0], settings.precision, settings.training, platform.python_version()]
    identity += [found.get(name, "") for name in COMPILERS]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


class BaselineCache:
    """A task's folder, in use until `close`. `path` is empty where there is no folder to keep anything in."""

    def __init__(self, root: str, name: str, largest: int = LARGEST_CACHE) -> None:
        self.path = ""
        self._lock = -1
        if not root:
            return
        with contextlib.suppress(OSError):
            folder = Path(root) / "compiled" / name
            folder.parent.mkdir(exist_ok=True)
            self._lock = _locked(folder.with_suffix(_LOCK), fcntl.LOCK_SH)
            new = not folder.exists()
            folder.mkdir(exist_ok=True)
            os.utime(folder)
            self.path = str(folder)
            if new:  # nobody waits for it
                threading.Thread(target=trim, args=(folder.parent, largest), daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Where compilers are to keep what they make."""
        if not self.path:
            return {}
        return {
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(self.path, "torchinductor"),
            "TRITON_CACHE_DIR": os.path.join(self.path, "triton"),
        }

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def trim(root: Path, largest: int) -> None:
    """Let the folders go that were not used for longest, as many as are too many. What is in use stays, and so does what cannot go."""
    for left in root.glob(f"*{_GOING}"):  # of one who was killed in the middle of it
        shutil.rmtree(left, ignore_errors=True)
    folders = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            if folder.is_dir() and folder.suffix != _GOING:
                folders.append((folder.stat().st_mtime, folder, _size(folder)))
    surplus = sum(size for _, _, size in folders) - largest
    for _, folder, size in sorted(folders):
        if surplus <= 0:
            return
        if _remove(folder):
            surplus -= size


def _remove(folder: Path) -> bool:
    lock, going = folder.with_suffix(_LOCK), folder.with_suffix(_GOING)
    try:
        descriptor = _locked(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # in use
    try:
        folder.rename(going)  # at once: nobody finds half a folder
        shutil.rmtree(going, ignore_errors=True)
        lock.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _locked(path: Path, how: int) -> int:
    """A descriptor that holds the lock. Whoever takes a folder away takes its lock too: then there is another one to wait for."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * 512
    return total
