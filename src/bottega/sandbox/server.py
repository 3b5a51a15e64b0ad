"""The fork server's own process: imports what every inmate needs, then forks one cell for each order and keeps nothing of it.

It stays single-threaded, initialises no device, runs no parallel operator and never unpickles an order: so a fork of it is sound,
and no cell can find another cell's order in memory.
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
from typing import NoReturn

from bottega.sandbox import free_cores, linux, messages, tree
from bottega.sandbox.child import close_all_but
from bottega.sandbox.compilers import COMPILES, load_torch_compiler, warm_compilers
from bottega.sandbox.freezer import Freezer, remove_leftovers
from bottega.sandbox.request import Order
from bottega.sandbox.supervisor import run_warden

PRELOADED = ("numpy", "torch", "triton", "triton.language", "bottega.judge.worker", "bottega.judge.controller")
MOST_DESCRIPTORS = 250
"""What one packet may carry, by the kernel's rule (253), with the order and the two channels among them."""

_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def serve(orders: socket.socket, judge: int) -> None:
    """Fork cells until the judge closes its end or dies.

    The judge's death is seen through a pidfd and not by PR_SET_PDEATHSIG, which would fire when the *thread* that started us ends.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    with contextlib.suppress(OSError):
        poll.register(os.pidfd_open(judge), select.POLLIN)
    if os.getppid() != judge:
        return
    absent = [name for name in PRELOADED if not _importable(name)]
    if os.environ.get(COMPILES) and not os.path.exists(
        "/dev/nvidiactl"
    ):  # there it asks for devices: no fork could use them then
        load_torch_compiler()
    if "triton" not in absent and os.path.exists("/dev/nvidiactl"):
        warm_compilers()
    remove_leftovers()
    gc.collect()
    gc.freeze()
    hello = {"absent": absent, "threads": len(os.listdir("/proc/self/task")), "path": sys.path}
    orders.send(json.dumps(hello).encode())
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if ready != [orders.fileno()]:
            return
        packet, fds, _, _ = socket.recv_fds(orders, 64, MOST_DESCRIPTORS)
        if not packet:
            return
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


def _run_intermediate(server: int, fds: list[int]) -> NoReturn:
    """Enter the name spaces, which takes hold for children only, and fork the warden. Never returns."""
    order_file, control, reins = fds[0], socket.socket(fileno=fds[1]), socket.socket(fileno=fds[2])
    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # without it, an ordinary user's /proc/self belongs to root
        close_all_but(fds)
        os.setsid()
        with os.fdopen(order_file, "rb") as file:
            order: Order = pickle.load(file)
        if order.device != "cpu":
            free_cores.keep_off()
        freezer = _freezer_for(order)
        _enter_namespaces(order)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of credentials would have cleared it
        if os.getppid() != server:
            os._exit(0)
        life, _held = os.pipe()
        warden = os.fork()
        if warden == 0:
            run_warden(order, control, reins, fds[3:], life, freezer)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        # One by one: the warden may by now have replaced the root of its name space, ours too, and with it /proc.
        for descriptor in (control.detach(), reins.detach(), *fds[3:], life):
            os.close(descriptor)
        os.waitpid(warden, 0)
        if isinstance(freezer, Freezer):
            freezer.remove()
        if order.mode == "bare":
            tree.end(tree.DescendantTree())
    except BaseException as error:
        with contextlib.suppress(OSError):
            messages.send(control, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode(), 1.0)
    os._exit(0)


def _freezer_for(order: Order) -> Freezer | str:
    """Or why there is none. Without name spaces the inmate may be our own user, who can leave a group."""
    if order.mode == "bare" or not order.freezer:
        return "no name spaces" if order.mode == "bare" else "no freezer was wanted"
    try:
        return Freezer.create()
    except OSError as error:
        return f"no freezer: {error.strerror or error}"


def _enter_namespaces(order: Order) -> None:
    if order.mode == "bare":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # should the warden be killed, its orphans come here
        return
    if order.mode == "root":
        linux.unshare(_NAMESPACES)
        return
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | _NAMESPACES)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
