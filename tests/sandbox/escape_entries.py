"""What tries to work on while its sandbox is stopped. Entries as in `sandbox_entries`; `fds[1]` is a file that the test maps too: a counter that
somebody raises, or a buffer that somebody fills, says who is awake."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import tempfile
import threading
import time

from sandbox_entries import say

BUFFER = 2 << 20
"""Two mebibytes, given a thousand times: the longest read there is."""
_SPARSE = 3 << 30
_NAME, _PR_SET_NAME = b"State:\tT", 15
_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)


def take_the_name() -> None:
    libc.prctl(_PR_SET_NAME, ctypes.c_char_p(_NAME), 0, 0, 0)


def sparse_file() -> int:
    resource_limit = min(_SPARSE, (1 << 30) - 4096)  # a file may be no larger, and can be read again and again
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    os.ftruncate(descriptor, resource_limit)
    return descriptor


def read_for_long(target: mmap.mmap, descriptor: int) -> None:
    """One system call of a quarter of a second that no signal ends."""
    view = memoryview(target)[:BUFFER]
    os.preadv(descriptor, [view] * 1000, 0)


def count_on(shared: mmap.mmap, slot: int) -> None:
    while True:
        shared[slot] = (shared[slot] + 1) % 256


def hidden_reader(fds, arguments):
    """A thread that is named like a state line, and is always inside a long read."""
    target, sparse = mmap.mmap(fds[1], BUFFER), sparse_file()

    def read() -> None:
        take_the_name()
        while True:
            read_for_long(target, sparse)

    threading.Thread(target=read, daemon=True).start()
    time.sleep(0.05)
    say(fds, ready=True)
    time.sleep(60)


def _doomed(reader) -> None:
    """What a process that cannot be stopped does: it is killed inside a long read, and ends when that is over."""
    take_the_name()
    scratch, sparse = mmap.mmap(-1, BUFFER), sparse_file()
    os.write(reader, b"r")
    while True:
        read_for_long(scratch, sparse)


def woken_by_an_exit_signal(fds, arguments):
    """Its child is made by a raw clone with SIGCONT for an exit signal."""
    shared = mmap.mmap(fds[1], BUFFER)
    reader, writer = os.pipe()
    child = libc.syscall(_CLONE, signal.SIGCONT, 0, 0, 0, 0)
    refused = child == -1
    if refused:
        child = os.fork()
    if child == 0:
        _doomed(writer)
    os.read(reader, 1)
    time.sleep(0.02)
    say(fds, refused=refused)
    os.kill(child, signal.SIGKILL)
    count_on(shared, 0)


def woken_as_an_orphaned_group(fds, arguments):
    """A grandchild in a group of its own burns; the kernel continues a stopped group whose last tie to its session ends."""
    shared = mmap.mmap(fds[1], BUFFER)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.setpgid(0, 0)
            count_on(shared, 0)
        _doomed(writer)
    os.read(reader, 1)
    time.sleep(0.02)
    say(fds, refused=False)
    os.kill(child, signal.SIGKILL)
    time.sleep(60)


def work_in_processes_that_end(fds, arguments):
    """One after the other; its first thread only starts them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    say(fds, ready=True)
    while True:
        if not os.fork():
            until = time.monotonic() + 0.001
            while time.monotonic() < until:
                pass
            os._exit(0)
        try:
            os.wait()
        except ChildProcessError:
            continue
