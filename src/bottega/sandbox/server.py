"""The fork server's own process: imports what every child needs, then forks one sandbox per request and keeps nothing of it.

It stays single-threaded, initialises no device, runs no parallel operator and never unpickles a request: so a fork of it is sound,
and no sandbox can find another sandbox's request in memory.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import select
import signal
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from bottega.sandbox import linux, messages, reserved_cores, tree
from bottega.sandbox.child import close_all_but
from bottega.sandbox.freezer import Freezer, remove_leftovers
from bottega.sandbox.request import SpawnRequest
from bottega.sandbox.supervisor import run_supervisor

MOST_DESCRIPTORS = 250
"""What one packet may carry, by the kernel's rule (253), with the request and the two channels among them."""

SPAWN, LARGEST_PACKET = b"spawn", 4096
"""A packet that is not the first is a list of modules, as JSON. It is answered by why they were left to the children, empty where they were not."""
IMPORT_SECONDS = 60.0
"""A large library takes half a minute from a disk that nobody has read yet."""

_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def serve(requests: socket.socket, parent: int, preload: Sequence[str], prepare: str) -> None:
    """Import the modules in `preload`, call `prepare` ("module:function", or empty), then fork sandboxes until the parent closes its end or dies.

    The parent's death is seen through a pidfd and not by PR_SET_PDEATHSIG, which would fire when the *thread* that started us ends.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    with contextlib.suppress(OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    if os.getppid() != parent:
        return
    absent = [name for name in preload if not _importable(name)]
    if prepare:
        module, _, name = prepare.partition(":")
        getattr(importlib.import_module(module), name)()
    remove_leftovers()
    gc.collect()
    gc.freeze()
    hello = {"absent": absent, "threads": len(os.listdir("/proc/self/task")), "path": sys.path}
    requests.send(json.dumps(hello).encode())
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if ready != [requests.fileno()]:
            return
        packet, fds, _, _ = socket.recv_fds(requests, LARGEST_PACKET, MOST_DESCRIPTORS)
        if not packet:
            return
        if packet != SPAWN:
            requests.send(json.dumps(_import_more(json.loads(packet))).encode())
            continue
        server = os.getpid()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run_intermediate(server, fds)
        for descriptor in fds:
            os.close(descriptor)


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _import_more(names: Sequence[str]) -> str:
    """Import what children that are yet to come would each import, as far as a fork has shown that this ends in time and leaves nothing behind that a
    fork cannot have: threads, or a GPU's driver. Returns what it leaves behind, then nothing is imported."""
    ours, theirs = os.pipe()
    probe = os.fork()
    if probe == 0:
        with contextlib.suppress(BaseException):
            before = _unforkable()
            found = [_imports(name) for name in names]
            left = ", ".join((_unforkable() - before).elements())
            os.write(theirs, json.dumps({"found": found, "left": left and f"it leaves {left[:200]}"}).encode())
        os._exit(0)
    try:
        process = os.pidfd_open(probe)
    except ProcessLookupError:  # it has ended, and the kernel has reaped it
        process = -1
    os.close(theirs)
    answered = bool(select.select([ours], [], [], IMPORT_SECONDS)[0])
    data = os.read(ours, 8 * LARGEST_PACKET) if answered else b""
    os.close(ours)
    if process >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)
    if not data:
        return "it ends the process" if answered else f"it takes more than {IMPORT_SECONDS:g} s"
    told = json.loads(data)
    if told["left"]:
        return str(told["left"])
    for name in (name for name, fit in zip(names, told["found"]) if fit):
        _imports(name)
    gc.collect()
    gc.freeze()
    return ""


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except Exception:
        return False
    return True


def _unforkable() -> Counter[str]:
    """Threads, and open files of a GPU's driver beyond those that only ask which devices there are."""
    found = Counter[str]()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
            found[f"a thread ({file.read().strip()})"] += 1
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{descriptor}")
            found[link] += link.startswith("/dev/nvidia-uvm")
    return found


def _run_intermediate(server: int, fds: list[int]) -> NoReturn:
    """Enter the name spaces, which takes hold for children only, and fork the supervisor. Never returns."""
    request_file, owner, control = fds[0], socket.socket(fileno=fds[1]), socket.socket(fileno=fds[2])
    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # without it, an ordinary user's /proc/self belongs to root
        close_all_but(fds)
        os.setsid()
        with os.fdopen(request_file, "rb") as file:
            request: SpawnRequest = pickle.load(file)
        if request.reserved_cores:
            reserved_cores.reserve(request.reserved_cores)
        freezer = _freezer_for(request)
        _enter_namespaces(request)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of credentials would have cleared it
        if os.getppid() != server:
            os._exit(0)
        life, _held = os.pipe()
        supervisor = os.fork()
        if supervisor == 0:
            run_supervisor(request, owner, control, fds[3:], life, freezer)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        # One by one: the supervisor may by now have replaced the root of its name space, ours too, and with it /proc.
        for descriptor in (owner.detach(), control.detach(), *fds[3:], life):
            os.close(descriptor)
        os.waitpid(supervisor, 0)
        if isinstance(freezer, Freezer):
            freezer.remove()
        if request.mode == "bare":
            tree.end(tree.DescendantTree())
    except BaseException as error:
        with contextlib.suppress(OSError):
            messages.send(owner, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode(), 1.0)
    os._exit(0)


def _freezer_for(request: SpawnRequest) -> Freezer | str:
    """A freezer, or why there is none. Without name spaces the child may be our own user, who can leave a group."""
    if request.mode == "bare" or not request.freezer:
        return "no name spaces" if request.mode == "bare" else "no freezer was wanted"
    try:
        return Freezer.create()
    except OSError as error:
        return f"no freezer: {error.strerror or error}"


def _enter_namespaces(request: SpawnRequest) -> None:
    if request.mode == "bare":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # should the supervisor be killed, its orphans come here
        return
    if request.mode == "root":
        linux.unshare(_NAMESPACES)
        return
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | _NAMESPACES)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
