"""The handle on a cell's reins, for a trusted process that stops and continues the cell inside its timed loop."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

from bottega.core.errors import JudgeError
from bottega.judge.sandbox.core_time import CoreTime

LARGEST_MESSAGE = 1 << 18


class Keeper:
    """Owns the channel. One keeper at a time: replies are not told apart."""

    def __init__(self, reins: socket.socket | int, *, timeout_s: float = 10.0) -> None:
        self._channel = reins if isinstance(reins, socket.socket) else socket.socket(fileno=reins)
        self._timeout_s = timeout_s
        self.spent = CoreTime()
        """How long the cell ran and waited for a core, between the last two freezes."""

    def freeze(self) -> bool:
        """Stop every process of the cell. True: every thread was seen at rest; False: one was still inside the kernel."""
        self._send(b"freeze")
        said, _, spent = self._receive().partition(b" ")
        self.spent = CoreTime.from_bytes(spent)
        return said == b"ok"

    def thaw(self) -> None:
        """Let it run on. No reply: the next thing that happens is being timed."""
        self._send(b"thaw")

    def arm(self) -> None:
        """Have the warden spin for the next command, so that a thaw that follows soon takes effect at once."""
        self._send(b"arm")

    def use_cores(self, everywhere: bool) -> None:
        """Let the cell use all cores, or all but those that are kept free for timing. No reply: it comes before the next command."""
        self._send(b"all-cores" if everywhere else b"few-cores")

    def kill(self) -> None:
        try:
            self._channel.send(b"kill", socket.MSG_NOSIGNAL)
        except OSError:
            return  # gone already

    def sample_start(self) -> None:
        self._send(b"sample-start")

    def sample_resume(self) -> None:
        """Count from here. No reply, like thaw."""
        self._send(b"sample-resume")

    def sample_pause(self) -> None:
        self._send(b"sample-pause")

    def sample_stop(self) -> dict[str, Any]:
        """`{"samples", "lost", "by_file"}`, or `{"unavailable": why}`."""
        self._send(b"sample-stop")
        return dict(json.loads(self._receive()))

    def close(self) -> None:
        self._channel.close()

    def _send(self, command: bytes) -> None:
        try:
            self._channel.send(command, socket.MSG_NOSIGNAL)
        except OSError as error:
            raise JudgeError(f"the cell is gone: {command.decode()} could not be sent ({error.strerror})") from None

    def _receive(self) -> bytes:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        if not poll.poll(self._timeout_s * 1000):
            raise JudgeError(f"the warden of the cell did not answer within {self._timeout_s:g} s; kill the cell")
        try:
            reply = self._channel.recv(LARGEST_MESSAGE)
        except OSError:
            reply = b""
        if not reply:
            raise JudgeError("the cell is gone: its warden closed the channel")
        return reply
