"""The untrusted process: gives up everything it does not need, says what it could not give up, waits for the warden, runs the entry."""

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
from bottega.sandbox.request import Order
from bottega.sandbox.syscalls import filter_program


def nothing(fds: list[int], arguments: dict) -> None:
    """The entry of a trial cell."""


def close_all_but(kept: Sequence[int]) -> None:
    spared = {0, 1, 2, *kept}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in spared:
            with contextlib.suppress(OSError):  # the listing's own descriptor
                os.close(int(name))


def run_inmate(
    order: Order, fds: Sequence[int], *, output: int, status: int, go: int, user: int | None, scratch: str
) -> NoReturn:
    """Never returns. Speaks on `status` once, before any untrusted code runs; a byte on `go` is the permission to run it."""
    code = 1
    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        for stream in (1, 2):
            os.dup2(output if order.output else null, stream)
        close_all_but([*fds, status, go])
        try:
            told = {"missing": _confine(order, user, scratch)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}  # type: ignore[dict-item]
        os.write(status, json.dumps(told).encode())
        os.close(status)
        if "error" in told or os.read(go, 1) != b"g":
            os._exit(1)
        os.close(go)
        _settle(order, scratch)
        module, _, name = order.entry.partition(":")
        getattr(importlib.import_module(module), name)(list(fds), pickle.loads(order.arguments))
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _confine(order: Order, user: int | None, scratch: str) -> dict[str, str]:
    """Apply every part that the inmate applies itself. Returns the missing ones with the reason."""
    missing: dict[str, str] = {}
    with contextlib.suppress(OSError):  # should the machine run out of memory, this tree goes first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    apply_limits(order.limits, bound_address_space=order.device == "cpu")
    os.umask(0o022)
    drop_privileges(user)
    if order.mode == "bare":
        missing.update(_confine_without_namespaces(order, user, scratch))
    try:
        linux.install_filter(filter_program(trusted=order.trusted))
    except KeyError:
        missing["syscalls"] = f"no filter is written for the {linux.MACHINE} architecture"
    except OSError as error:
        missing["syscalls"] = f"the kernel refused the filter ({error.strerror})"
    return missing


def _confine_without_namespaces(order: Order, user: int | None, scratch: str) -> dict[str, str]:
    why = f"no name spaces ({order.refused or 'not tried'})"
    missing = {"network": f"{why}; only the system-call filter denies sockets"}
    nodes = files.device_nodes(order.device)
    try:
        version = landlock.restrict((*order.readable, "/proc", "/sys"), (scratch, files.SHARED_MEMORY, *nodes, *order.writable))
        missing["filesystem"] = f"{why}; landlock bounds reading and writing, and /proc and /dev/shm are shared"
    except OSError as error:
        version = 0
        missing["filesystem"] = f"{why}, and no landlock ({error.strerror}); only file permissions hold"
    signals = "signals stay inside by landlock" if version >= 6 else "only permissions keep signals inside"
    missing["processes"] = f"{why}; {signals}, and stopping walks the process tree"
    if user is None:
        missing["privileges"] = "runs as the judge's own user, without capabilities"
    return missing


def _settle(order: Order, scratch: str) -> None:
    """A clean place to run in: environment, folder, signals, and random numbers that no other cell has."""
    home = os.path.join(scratch, "home")
    with contextlib.suppress(FileExistsError):
        os.mkdir(home)
    os.chdir(home)
    os.environ.clear()
    # A user without an account and without a name breaks getpass, and with it torch's caches; Triton reads its own name for home.
    os.environ.update({"USER": "inmate", "LOGNAME": "inmate", "TRITON_HOME": home})
    os.environ.update({**order.environment, "HOME": home, "TMPDIR": scratch})
    tempfile.tempdir = None
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(list(os.urandom(64)))
