"""The sandboxed process: drops every privilege, reports what could not be dropped, waits for the supervisor, then runs the entry function."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bottega.sandbox import files, landlock, linux
from bottega.sandbox.limits import apply_limits
from bottega.sandbox.privileges import drop_privileges
from bottega.sandbox.request import SpawnRequest
from bottega.sandbox.syscalls import filter_program


def nothing(fds: list[int], arguments: dict) -> None:
    """The entry function of a trial sandbox: does nothing."""


def close_all_but(kept: Sequence[int]) -> None:
    spared = {0, 1, 2, *kept}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in spared:
            with contextlib.suppress(OSError):  # the listing's own descriptor
                os.close(int(name))


def run_child(
    request: SpawnRequest, fds: Sequence[int], *, output: int, status: int, go: int, user: int | None, scratch: str
) -> NoReturn:
    """Never returns. Reports on `status` once, before any untrusted code runs; a byte on `go` is the permission to run it."""
    code = 1
    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        for stream in (1, 2):
            os.dup2(output if request.output else null, stream)
        close_all_but([*fds, status, go])
        try:
            told = {"missing": _confine(request, user, scratch)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}  # type: ignore[dict-item]
        os.write(status, json.dumps(told).encode())
        os.close(status)
        if "error" in told or os.read(go, 1) != b"g":
            os._exit(1)
        os.close(go)
        _settle(request, scratch)
        module, _, name = request.entry.partition(":")
        getattr(importlib.import_module(module), name)(list(fds), pickle.loads(request.arguments))
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _confine(request: SpawnRequest, user: int | None, scratch: str) -> dict[str, str]:
    """Apply every part of the sandbox that the child applies itself. Returns the missing ones with the reason."""
    missing: dict[str, str] = {}
    with contextlib.suppress(OSError):  # should the machine run out of memory, this tree goes first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    apply_limits(request.limits, bound_address_space=request.device == "cpu")
    os.umask(0o022)
    drop_privileges(user)
    if request.mode == "bare":
        missing.update(_confine_without_namespaces(request, user, scratch))
    if request.hidden:
        linux.prctl(linux.PR_SET_DUMPABLE, 0)  # not after the filter is there
    try:
        linux.install_filter(filter_program(trusted=request.trusted))
    except KeyError:
        missing["syscalls"] = f"no filter is written for the {linux.MACHINE} architecture"
    except OSError as error:
        missing["syscalls"] = f"the kernel refused the filter ({error.strerror})"
    return missing


def _confine_without_namespaces(request: SpawnRequest, user: int | None, scratch: str) -> dict[str, str]:
    why = f"no name spaces ({request.refused or 'not tried'})"
    missing = {"network": f"{why}; only the system-call filter denies sockets"}
    nodes = files.device_nodes(request.device)
    try:
        version = landlock.restrict(
            (*request.readable, "/proc", "/sys"), (scratch, files.SHARED_MEMORY, *nodes, *request.writable)
        )
        missing["filesystem"] = f"{why}; landlock bounds reading and writing, and /proc and /dev/shm are shared"
    except OSError as error:
        version = 0
        missing["filesystem"] = f"{why}, and no landlock ({error.strerror}); only file permissions hold"
    signals = "signals stay inside by landlock" if version >= 6 else "only permissions keep signals inside"
    missing["processes"] = f"{why}; {signals}, and stopping walks the process tree"
    if user is None:
        missing["privileges"] = "runs as the caller's own user, without capabilities"
    return missing


def _settle(request: SpawnRequest, scratch: str) -> None:
    """Set up environment, folder, signals, and random numbers that no other sandbox has."""
    home = os.path.join(scratch, "home")
    with contextlib.suppress(FileExistsError):
        os.mkdir(home)
    os.chdir(home)
    os.environ.clear()
    # Without a user name getpass fails, and with it the caches of libraries; some read a variable of their own for the home folder.
    os.environ.update({"USER": "sandbox", "LOGNAME": "sandbox", "TRITON_HOME": home})
    os.environ.update({**request.environment, "HOME": home, "TMPDIR": scratch})
    tempfile.tempdir = None
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(list(os.urandom(64)))
