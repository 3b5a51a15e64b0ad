"""The judge's handle on one cell: stop it, sample it, kill it, learn how it ended. Safe to use from several threads."""

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

from bottega.core.errors import JudgeError, SandboxError
from bottega.sandbox import messages
from bottega.sandbox.control import samples_in
from bottega.sandbox.report import SandboxReport

SPAWN_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_GONE_S = 60.0
"""From the supervisor's last word until the kernel has taken down everyone in the cell: a thousand processes with sixty thousand mappings
each take half a minute, on cores that the next candidate is to be timed on."""


@dataclass(frozen=True)
class CellExit:
    code: int | None
    signal: int | None
    reason: str
    """`exited`, `signalled`, `killed` (by us), `memory` (over its limit), `lost` (the warden vanished)."""
    output: str
    """The end of what it wrote to standard output and standard error, 8 KiB at most. Never to be trusted."""


_LOST = CellExit(None, None, "lost", "")


class Cell:
    """One sandboxed process tree. Dropping the object ends the tree, as does the death of this process."""

    def __init__(self, control: socket.socket, reins: socket.socket) -> None:
        self.sandbox = SandboxReport({})
        self.reins = reins
        """Hand it to a trusted process, which wraps it in a `Keeper`."""
        self._control = control
        self._lock = threading.Lock()
        self._inbox = messages.Inbox()
        self._replies: list[bytes] = []
        self._exit: CellExit | None = None
        self._warden = -1

    def kill(self) -> None:
        """End the whole tree. Returns when it is gone, or when waiting any longer is of no use."""
        if self._exit is None:
            with contextlib.suppress(OSError):
                messages.send(self._control, b"kill", _END_TIMEOUT_S)
            if self.wait(_END_TIMEOUT_S) is None:
                self._end_warden()
                self.wait(1.0)
        with self._lock:
            if self._exit is None:
                self._exit = CellExit(None, signal.SIGKILL, "lost", "")

    def wait(self, timeout: float | None) -> CellExit | None:
        """How it ended, once the whole tree is gone. None: it still runs after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._exit is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._pump(left) and self._exit is None:
                return None
        return self._exit

    def freeze(self) -> bool:
        """Stop every process of the cell. True: every thread was seen at rest."""
        return self._ask(b"freeze").startswith(b"ok")

    def thaw(self) -> None:
        self._send(b"thaw")

    def sample_start(self) -> None:
        self._send(b"sample-start")

    def sample_stop(self) -> dict[str, Any]:
        """Where the tree's CPU time went: `{"samples", "lost", "by_file"}`, or `{"unavailable": why}`."""
        return samples_in(self._ask(b"sample-stop"))

    def _send(self, command: bytes) -> None:
        try:
            messages.send(self._control, command, _END_TIMEOUT_S)
        except OSError:
            raise JudgeError(f"the cell is gone: {command.decode()} could not be sent") from None

    def _ask(self, command: bytes) -> bytes:
        deadline = time.monotonic() + _END_TIMEOUT_S
        self._send(command)
        while time.monotonic() < deadline:
            self._pump(0.01)  # short: another thread in wait() may take the reply from the channel
            with self._lock:
                if self._replies:
                    return self._replies.pop(0)
            if self._exit is not None:
                raise JudgeError(f"the cell ended ({self._exit.reason}) before it answered {command.decode()}")
        raise JudgeError(f"the warden of the cell did not answer {command.decode()}; kill the cell")

    def _pump(self, timeout: float | None) -> bool:
        """Take in one packet. False: none came in time."""
        poll = select.poll()
        with self._lock:
            if self._exit is not None:
                return True
            poll.register(self._control, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return False
        with self._lock:
            if self._exit is not None:
                return True
            try:
                packet = self._control.recv(messages.PACKET + 1, socket.MSG_DONTWAIT)
                message = self._inbox.take(packet) if packet else b""
            except BlockingIOError:
                return True
            except (OSError, messages.Garbled):
                message = b""
            if message is None:
                return True
            self._exit = _exit_in(message) if message else _LOST
            if self._exit is None:
                self._replies.append(message)
                return True
            self._await_warden()
        return True

    def introduction(self) -> dict[str, Any]:
        """The warden's first message, with its pidfd. Raises SandboxError when it never comes."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(SPAWN_TIMEOUT_S * 1000):
            raise SandboxError(f"the sandbox did not start within {SPAWN_TIMEOUT_S:g} s; is the machine overloaded?")
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, messages.PACKET + 1, 1)
            if fds:
                self._warden = fds[0]
                weakref.finalize(self, os.close, self._warden)
            message = self._inbox.take(packet) if packet else b""
            if message is None:
                message = messages.receive(self._control, self._inbox, SPAWN_TIMEOUT_S)
        except (OSError, messages.Garbled):
            message = b""
        return dict(json.loads(message)) if message else {"error": "it ended before it said anything"}

    def _await_warden(self) -> None:
        """The first process of a name space is gone only after everyone else in it."""
        if self._warden != -1:
            poll = select.poll()
            poll.register(self._warden, select.POLLIN)
            if not poll.poll(_GONE_S * 1000):
                self._end_warden()
                poll.poll(1000)

    def _end_warden(self) -> None:
        if self._warden != -1:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._warden, signal.SIGKILL)


def _exit_in(message: bytes) -> CellExit | None:
    """None: it is a reply to something else."""
    if not message.startswith(b'{"exit"'):
        return None
    try:
        return CellExit(**json.loads(message)["exit"])
    except (ValueError, TypeError):
        return _LOST
