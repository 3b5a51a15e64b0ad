"""The private file system of a sandbox: an empty root into which only what is named here is mounted, read-only but for the scratch.

An allow list, because what must stay hidden (homes, the caller's data, other sandboxes, sockets under /run) cannot be listed.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import bottega
from bottega.sandbox import linux

SCRATCH = "/tmp"
SHARED_MEMORY = "/dev/shm"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/usr/local/cuda")
_NEVER = {"/", "/proc", "/sys", "/dev", "/tmp", "/run", "/home", "/root", "/var", "/mnt", "/srv"}
_NODES = ("null", "zero", "full", "random", "urandom")
_OLD = "/.old"
_GROUPS = "/sys/fs/cgroup"
_SAFE = linux.MS_NOSUID | linux.MS_NODEV
_KERNEL_SWITCHES = ("sys", "sysrq-trigger", "irq", "bus", "fs")


def readable_paths(import_path: Sequence[str], environment: Mapping[str, str], extra: Sequence[str]) -> tuple[str, ...]:
    """What the interpreter, its compilers and the device's libraries need to read, parents first.

    `import_path` is the fork server's `sys.path`, not that of this process, which may hold the task's folder.
    """
    paths = [*_SYSTEM, sys.prefix, sys.base_prefix, *import_path, str(Path(bottega.__file__).resolve().parent)]
    paths += environment.get("LD_LIBRARY_PATH", "").split(":")
    paths += [environment.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    home = os.path.expanduser("~")
    needed = {os.path.abspath(path) for path in paths if path and os.path.exists(path)}
    needed = {path for path in needed if path not in _NEVER and not (home + "/").startswith(path + "/")}
    needed |= {os.path.abspath(path) for path in extra if os.path.exists(path)} - {"/"}
    return tuple(sorted(needed))


def device_nodes(device: str) -> tuple[str, ...]:
    nodes = tuple(f"/dev/{name}" for name in _NODES if os.path.exists(f"/dev/{name}"))
    return nodes + (tuple(sorted(glob.glob("/dev/nvidia*"))) if device != "cpu" else ())


def enter_private_root(
    readable: Sequence[str], writable: Sequence[str], nodes: Sequence[str], *, scratch_bytes: int, owner: int | None
) -> None:
    """Replace the root of this (new) mount name space. Call it in the first process of a new process name space."""
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", SCRATCH, "tmpfs", _SAFE, "size=8m,nr_inodes=16384,mode=755")
    os.mkdir(SCRATCH + _OLD)
    linux.pivot_root(SCRATCH, SCRATCH + _OLD)  # what lay under the mount point is visible again, below the old root
    os.chdir("/")

    space = f"size={scratch_bytes},nr_inodes={scratch_bytes // 4096 + 1024},mode=1777"
    space += "" if owner is None else f",uid={owner},gid={owner}"
    for folder in ("/proc", "/sys", "/dev", SCRATCH, SHARED_MEMORY):
        os.mkdir(folder, 0o755)
    linux.mount("tmpfs", SCRATCH, "tmpfs", _SAFE, space)
    linux.mount("tmpfs", SHARED_MEMORY, "tmpfs", _SAFE, space)
    linux.mount("proc", "/proc", "proc", _SAFE | linux.MS_NOEXEC)
    for name in _KERNEL_SWITCHES:
        if os.path.exists(f"/proc/{name}"):
            linux.mount(f"/proc/{name}", f"/proc/{name}", None, linux.MS_BIND)
            _restrict(f"/proc/{name}", linux.MS_RDONLY)
    linux.mount(_OLD + "/sys", "/sys", None, linux.MS_BIND | linux.MS_REC)
    _restrict("/sys", linux.MS_RDONLY | _SAFE)
    if os.path.isdir(_GROUPS):  # groups of other sandboxes could be watched and locked there
        linux.mount("none", _GROUPS, "tmpfs", linux.MS_RDONLY | _SAFE, "size=4k")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")

    bound: list[str] = []
    for paths, flags in ((readable, linux.MS_RDONLY | _SAFE), (nodes, linux.MS_NOSUID), (writable, _SAFE)):
        for path in paths:
            place = _build_path(os.path.abspath(path))
            covered = place is not None and any(place == parent or place.startswith(parent + "/") for parent in bound)
            if place is None or (covered and paths is not writable):
                continue
            _bind(place, flags)
            bound.append(place)
    linux.unmount(_OLD, linux.MNT_DETACH)
    os.rmdir(_OLD)
    linux.mount("none", "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _SAFE)


def _build_path(path: str) -> str | None:
    """Create `path` as it is in the old root, symbolic links included. Returns its resolved form; None if it does not exist."""
    pending, current, hops = path.split("/"), "", 0
    while pending:
        name = pending.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            current = os.path.dirname(current).rstrip("/")
            continue
        step = f"{current}/{name}"
        if os.path.islink(_OLD + step):
            target = os.readlink(_OLD + step)
            if not os.path.lexists(step):
                os.symlink(target, step)
            pending = target.split("/") + pending
            current = "" if target.startswith("/") else current
            hops += 1
            if hops > 40:
                return None
            continue
        if not os.path.exists(_OLD + step):
            return None
        current = step
        if not os.path.lexists(step):
            if os.path.isdir(_OLD + step):
                os.mkdir(step, 0o755)
            else:
                os.close(os.open(step, os.O_CREAT | os.O_WRONLY, 0o600))
    return current or None


def _bind(path: str, flags: int) -> None:
    linux.mount(_OLD + path, path, None, linux.MS_BIND | linux.MS_REC)
    _restrict(path, flags)


def _restrict(path: str, flags: int) -> None:
    try:
        linux.restrict_mounts(path, flags)
    except OSError:  # before Linux 5.12: one remount for each mount below, keeping the flags it has
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split()[4:6] for line in file]
        names = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
        for target, options in mounts:
            if target == path or target.startswith(path + "/"):
                kept = sum(names.get(option, 0) for option in options.split(","))
                linux.mount("none", target, None, linux.MS_REMOUNT | linux.MS_BIND | kept | flags)
