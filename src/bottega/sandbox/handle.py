"""The handle on one sandbox for the process that started it: kill it, wait for its end. Safe to use from several threads.

Freezing, sampling and reading memory go through `ProcessControl`, in whichever trusted process holds the `control` socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import SandboxError
from bottega.sandbox import messages
from bottega.sandbox.report import SandboxReport

SPAWN_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_GONE_S = 60.0
"""From the supervisor's last message until the kernel has removed every process: a thousand processes with sixty thousand mappings each take
half a minute, and use cores that the caller needs."""


@dataclass(frozen=True)
class SandboxExit:
    code: int | None
    signal: int | None
    reason: str
    """`exited`, `signalled`, `killed` (by us), `memory` (over its limit), `lost` (the supervisor is gone)."""
    output: str
    """The last 8 KiB of standard output and standard error. Untrusted text."""


_LOST = SandboxExit(None, None, "lost", "")


class Sandbox:
    """One sandboxed process tree. Dropping the object ends the tree, as does the death of this process."""

    def __init__(self, owner: socket.socket, control: socket.socket) -> None:
        self.report = SandboxReport({})
        self.control = control
        """For a trusted process, which wraps it in a `ProcessControl`."""
        self._owner = owner
        self._lock = threading.Lock()
        self._inbox = messages.Inbox()
        self._exit: SandboxExit | None = None
        self._supervisor = -1

    def kill(self) -> None:
        """Kill the process tree. Returns when it is gone, or after a time limit."""
        if self._exit is None:
            with contextlib.suppress(OSError):
                messages.send(self._owner, b"kill", _END_TIMEOUT_S)
            if self.wait(_END_TIMEOUT_S) is None:
                self._end_supervisor()
                self.wait(1.0)
        with self._lock:
            if self._exit is None:
                self._exit = SandboxExit(None, signal.SIGKILL, "lost", "")

    def wait(self, timeout: float | None) -> SandboxExit | None:
        """How it ended, once the whole tree is gone. None: it still runs after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._exit is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._pump(left) and self._exit is None:
                return None
        return self._exit

    def _pump(self, timeout: float | None) -> bool:
        """Read one packet. False: none came in time."""
        poll = select.poll()
        with self._lock:
            if self._exit is not None:
                return True
            poll.register(self._owner, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return False
        with self._lock:
            if self._exit is not None:
                return True
            try:
                packet = self._owner.recv(messages.PACKET + 1, socket.MSG_DONTWAIT)
                message = self._inbox.take(packet) if packet else b""
            except BlockingIOError:
                return True
            except (OSError, messages.MalformedMessage):
                message = b""
            if message is None:
                return True
            self._exit = _exit_in(message)
            self._await_supervisor()
        return True

    def startup_report(self) -> dict[str, Any]:
        """The supervisor's first message, with its pidfd. Raises SandboxError when it never comes."""
        poll = select.poll()
        poll.register(self._owner, select.POLLIN)
        if not poll.poll(SPAWN_TIMEOUT_S * 1000):
            raise SandboxError(f"the sandbox did not start within {SPAWN_TIMEOUT_S:g} s; is the machine overloaded?")
        try:
            packet, fds, _, _ = socket.recv_fds(self._owner, messages.PACKET + 1, 1)
            if fds:
                self._supervisor = fds[0]
                weakref.finalize(self, os.close, self._supervisor)
            message = self._inbox.take(packet) if packet else b""
            if message is None:
                message = messages.receive(self._owner, self._inbox, SPAWN_TIMEOUT_S)
        except (OSError, messages.MalformedMessage):
            message = b""
        return dict(json.loads(message)) if message else {"error": "it ended before it reported anything"}

    def _await_supervisor(self) -> None:
        """The first process of a name space is gone only after everyone else in it."""
        if self._supervisor != -1:
            poll = select.poll()
            poll.register(self._supervisor, select.POLLIN)
            if not poll.poll(_GONE_S * 1000):
                self._end_supervisor()
                poll.poll(1000)

    def _end_supervisor(self) -> None:
        if self._supervisor != -1:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._supervisor, signal.SIGKILL)


def _exit_in(message: bytes) -> SandboxExit:
    """What the supervisor reported last; `lost` for anything else."""
    try:
        return SandboxExit(**json.loads(message)["exit"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return _LOST
