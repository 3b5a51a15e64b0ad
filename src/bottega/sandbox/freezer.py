"""The kernel's own way to stop a process tree: a group of version 2, which freezes whoever is in it whatever signals they get or send.

Only version 2: processes that version 1 has frozen cannot be killed, and a judge that is killed at such a moment would leave them for ever.
Its files are opened before the cell gets its private root, where they could not be written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time

_PREFIX = "bottega-"
_LOOK_AGAIN_S = 0.00005


class Freezer:
    def __init__(self, parent: int, name: str) -> None:
        """`parent` is a descriptor of the folder in which `name` was made."""
        self._parent, self._name = parent, name
        self._folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        fcntl.flock(self._folder, fcntl.LOCK_SH)  # whoever holds it is alive: see `remove_leftovers`
        self._members, self._switch, self._events = (
            os.open(file, flags | os.O_CLOEXEC, dir_fd=self._folder)
            for file, flags in (("cgroup.procs", os.O_WRONLY), ("cgroup.freeze", os.O_WRONLY), ("cgroup.events", os.O_RDONLY))
        )

    @classmethod
    def create(cls) -> Freezer:
        """OSError where the machine has none that we may use; the text says why."""
        parent = os.open(_own_group(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        try:
            os.mkdir(name, dir_fd=parent)
            return cls(parent, name)
        except OSError:  # also where another judge that starts took it for a leftover, before it was locked
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
            os.close(parent)
            raise

    @property
    def descriptors(self) -> list[int]:
        return [self._parent, self._folder, self._members, self._switch, self._events]

    def take_in(self, process: int) -> None:
        """It, and whatever it starts from now on."""
        os.write(self._members, b"%d" % process)

    def stop(self, patience_s: float) -> bool:
        """False: somebody was still inside the kernel at the end. Whoever comes out of there freezes all the same."""
        os.write(self._switch, b"1")
        deadline = time.monotonic() + patience_s
        while b"frozen 1" not in os.pread(self._events, 256, 0):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_AGAIN_S)
        return True

    def start(self) -> None:
        os.write(self._switch, b"0")

    def remove(self) -> None:
        """Once nobody is left in it."""
        with contextlib.suppress(OSError):
            os.rmdir(self._name, dir_fd=self._parent)


def remove_leftovers() -> None:
    """Groups of judges that were killed before they could. One that is in use is locked, and one with processes in it cannot be removed."""
    with contextlib.suppress(OSError):
        parent = os.open(_own_group(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in os.listdir(parent):
            if name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _remove_unused(parent, name)
        os.close(parent)


def _remove_unused(parent: int, name: str) -> None:
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(folder)


def _own_group() -> str:
    """The folder of the version 2 group that this process is in. OSError where none is mounted."""
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        own = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), None)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            place, _, kind = line.partition(" - ")
            root, mounted_at = place.split()[3:5]
            if own is not None and kind.startswith("cgroup2 ") and (own + "/").startswith(root.rstrip("/") + "/"):
                return mounted_at + own[len(root.rstrip("/")) :]
    raise OSError("no control groups of version 2 are mounted")
