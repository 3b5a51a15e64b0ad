"""Giving up every privilege for good: user, groups, capabilities, and the way back through set-user-id programs."""

from __future__ import annotations

import contextlib
import os
import secrets

from bottega.sandbox import linux

LOWEST_USER = 0x60000000
WRITER_USER = LOWEST_USER - 1
"""The one user of all cells that may write to a folder of the host, so that they can read each other's files there."""
_NOROOT_AND_LOCKS = 0xEF
"""SECBIT_NOROOT, NO_SETUID_FIXUP, KEEP_CAPS locked off, NO_CAP_AMBIENT_RAISE, each with its lock."""


def fresh_user() -> int:
    """A high number that no account has; random, because the kernel counts processes per user and cells must not share the count."""
    return LOWEST_USER + secrets.randbelow(0x10000000)


def drop_privileges(user: int | None) -> None:
    """Become `user` (None: stay who we are) without groups, capabilities, or any way to gain them."""
    highest = 0
    while True:
        try:
            linux.prctl(linux.PR_CAPBSET_READ, highest)
        except OSError:
            break
        with contextlib.suppress(OSError):  # without CAP_SETPCAP there is nothing to drop it with, and nothing it would allow
            linux.prctl(linux.PR_CAPBSET_DROP, highest)
        highest += 1
    with contextlib.suppress(OSError):
        linux.prctl(linux.PR_SET_SECUREBITS, _NOROOT_AND_LOCKS)
    with contextlib.suppress(OSError):
        linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    linux.clear_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    # A change of user leaves /proc/self unreadable to the process itself, which breaks OpenMP and debuggers of one's own.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
