"""Landlock, the stand-in where no private file system can be mounted: what may be read, what may be written, whom to signal."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence

from bottega.sandbox import linux

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_FIRST_VERSION = (1 << 13) - 1
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3


def restrict(readable: Sequence[str], writable: Sequence[str]) -> int:
    """Allow nothing but these folders and files from now on. Returns landlock's version; OSError where there is no landlock.

    From version 6 on, processes outside can no longer be signalled.
    """
    version = linux.landlock_version()
    handled = _FIRST_VERSION
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        handled |= right if version >= since else 0
    attributes = struct.pack("=Q", handled)
    if version >= 6:
        attributes += struct.pack("=QQ", 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = linux.landlock_ruleset(attributes)
    try:
        for paths, rights in ((readable, _READ), (writable, handled)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        linux.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        linux.landlock_allow_beneath(ruleset, rights if is_directory else rights & _FILE_RIGHTS, descriptor)
    finally:
        os.close(descriptor)
