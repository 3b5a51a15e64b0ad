"""The handle on a cell's reins, for a trusted process that stops and continues the cell inside its timed loop.

Whatever the supervisor says or does not say, the answer is a value or a `JudgeError`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from bottega.core.errors import JudgeError
from bottega.sandbox import inspection, messages
from bottega.sandbox.core_time import CoreTime
from bottega.sandbox.inspection import Region


class Keeper:
    """Owns the channel. One keeper at a time: replies are not told apart."""

    def __init__(self, reins: socket.socket | int, *, timeout_s: float = 10.0) -> None:
        self._channel = reins if isinstance(reins, socket.socket) else socket.socket(fileno=reins)
        self._inbox = messages.Inbox()
        self._timeout_s = timeout_s
        self.spent = CoreTime()
        """How long the cell ran and waited for a core, between the last two freezes."""
        self.memory_unreadable = ""
        """Why the last `read_memory` returned None."""

    def freeze(self) -> bool:
        """Stop every process of the cell. True: every thread was seen at rest; False: one was still inside the kernel."""
        self._send(b"freeze")
        said, _, spent = self._receive().partition(b" ")
        try:
            self.spent = CoreTime.from_bytes(spent)
        except ValueError:
            raise JudgeError("the supervisor of the cell answered freeze with something else; kill the cell") from None
        return said == b"ok"

    def thaw(self) -> None:
        """Let it run on. No reply: the next thing that happens is being timed."""
        self._send(b"thaw")

    def still(self) -> bool:
        """Whether it is stopped and, by the kernel's own count, nobody in it ran since it was last seen at rest. On a GPU nothing is
        counted, and a cell that was seen at rest is taken for still."""
        self._send(b"still")
        return self._receive() == b"still"

    def read_memory(self, regions: Sequence[Region]) -> list[bytes] | None:
        """What its first process holds at these addresses, while it is stopped: at most 1 MiB in 4096 regions. None: one of them could
        not be read, and `memory_unreadable` says why."""
        try:
            self._send(b"read-memory " + inspection.pack(regions))
        except ValueError as error:
            raise JudgeError(f"the memory of the cell was not read: {error}") from None
        said, _, content = self._receive().partition(b" ")
        if said != b"ok" or len(content) != sum(length for _, length in regions):
            self.memory_unreadable = content.decode("utf-8", "replace") if said == b"unreadable" else "the answer is malformed"
            return None
        found, place = [], 0
        for _, length in regions:
            found.append(content[place : place + length])
            place += length
        return found

    def overwrite_memory(self, regions: Sequence[Region]) -> bool:
        """Fill these addresses of its first process with bytes that are no number, while it is stopped. False: they are not all memory of
        its own, or cannot be written, and `memory_unreadable` says why."""
        try:
            self._send(b"overwrite-memory " + inspection.pack(regions))
        except ValueError as error:
            raise JudgeError(f"the memory of the cell was not written: {error}") from None
        said, _, why = self._receive().partition(b" ")
        self.memory_unreadable = why.decode("utf-8", "replace")
        return said == b"ok"

    def arm(self) -> None:
        """Have the warden spin for the next command, so that a thaw that follows soon takes effect at once."""
        self._send(b"arm")

    def use_cores(self, everywhere: bool) -> None:
        """Let the cell use all cores, or all but those that are kept free for timing. No reply: it comes before the next command."""
        self._send(b"all-cores" if everywhere else b"few-cores")

    def kill(self) -> None:
        try:
            messages.send(self._channel, b"kill", self._timeout_s)
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
        return samples_in(self._receive())

    def close(self) -> None:
        self._channel.close()

    def _send(self, command: bytes) -> None:
        try:
            messages.send(self._channel, command, self._timeout_s)
        except OSError as error:
            name = command[:20].partition(b" ")[0].decode()
            raise JudgeError(f"the cell is gone: {name} could not be sent ({error.strerror or error})") from None

    def _receive(self) -> bytes:
        try:
            return messages.receive(self._channel, self._inbox, self._timeout_s)
        except TimeoutError:
            raise JudgeError(f"the warden of the cell did not answer within {self._timeout_s:g} s; kill the cell") from None
        except (OSError, messages.Garbled):
            raise JudgeError("the cell is gone: its warden closed the channel") from None


def samples_in(reply: bytes) -> dict[str, Any]:
    """JudgeError for what is no answer to sample-stop."""
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise JudgeError("the supervisor of the cell answered sample-stop with something else; kill the cell")
    return found
