"""The system calls that the standard library does not offer, through libc with ctypes: each raises OSError and does nothing else."""

from __future__ import annotations

import ctypes
import os
import platform

MACHINE = platform.machine()

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_READ, PR_CAPBSET_DROP = 1, 4, 23, 24
PR_SET_SECCOMP, PR_SET_SECUREBITS, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 28, 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 4

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int | None, what: str, *arguments: int | ctypes.Array | ctypes._Pointer | None) -> int:
    if number is None:
        raise OSError(38, f"{what}: not known for the {MACHINE} architecture")
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *converted), what)


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount of {target}")


def unmount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount of {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    new, old = ctypes.create_string_buffer(os.fsencode(new_root)), ctypes.create_string_buffer(os.fsencode(put_old))
    _syscall(_PIVOT_ROOT.get(MACHINE), "pivot_root", new, old)


def restrict_mounts(target: str, flags: int) -> None:
    """Add MS_RDONLY, MS_NOSUID and the like to a mount and to every mount below it (the attribute bits equal the flags)."""
    path = ctypes.create_string_buffer(os.fsencode(target))
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    recursive, size, current_directory = 0x8000, 32, -100
    _syscall(_MOUNT_SETATTR, f"mount_setattr of {target}", current_directory, path, recursive, attributes, size)


def prctl(option: int, *arguments: int) -> int:
    filled = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(ctypes.c_int(option), *filled), f"prctl {option}")


def clear_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _syscall(_CAPSET.get(MACHINE), "capset", header, (ctypes.c_uint32 * 6)())


def install_filter(program: bytes) -> None:
    """Install a seccomp program. SPEC_ALLOW: older kernels would otherwise slow the filtered process."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    packed = Program(len(program) // 8, program)
    try:
        _syscall(
            _SECCOMP.get(MACHINE), "seccomp", _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW, ctypes.pointer(packed)
        )
    except OSError:
        mode_filter = 2
        _check(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(mode_filter), ctypes.byref(packed), 0, 0), "seccomp")


def open_perf_event(attributes: bytes, pid: int, cpu: int) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    close_on_exec, no_group = 8, -1
    return _syscall(_PERF_EVENT_OPEN.get(MACHINE), "perf_event_open", buffer, pid, cpu, no_group, close_on_exec)


def landlock_version() -> int:
    return _syscall(_LANDLOCK_CREATE, "landlock", None, 0, 1)


def landlock_ruleset(attributes: bytes) -> int:
    return _syscall(_LANDLOCK_CREATE, "landlock", ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)


def landlock_allow_beneath(ruleset: int, rights: int, directory: int) -> None:
    class Beneath(ctypes.Structure):
        _pack_ = 1
        _layout_ = "ms"
        _fields_ = (("rights", ctypes.c_uint64), ("directory", ctypes.c_int32))

    path_beneath = 1
    _syscall(_LANDLOCK_ADD, "landlock", ruleset, path_beneath, ctypes.pointer(Beneath(rights, directory)), 0)


def landlock_restrict(ruleset: int) -> None:
    _syscall(_LANDLOCK_RESTRICT, "landlock", ruleset, 0)
