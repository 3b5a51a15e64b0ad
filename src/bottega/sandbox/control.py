"""Control of a running sandbox for a trusted process: freeze, thaw, sample, read and overwrite memory.

Whatever the supervisor answers or does not answer, a method returns a value or raises `SandboxError`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from bottega.core.errors import SandboxError
from bottega.sandbox import inspection, messages
from bottega.sandbox.core_time import CoreTime
from bottega.sandbox.inspection import Region


class ProcessControl:
    """Owns the channel. One object at a time: replies carry no identity."""

    def __init__(self, control: socket.socket | int, *, timeout_s: float = 10.0) -> None:
        self._channel = control if isinstance(control, socket.socket) else socket.socket(fileno=control)
        self._inbox = messages.Inbox()
        self._timeout_s = timeout_s
        self.spent = CoreTime()
        """How long the sandbox ran and waited for a core between the last two freezes."""
        self.memory_unreadable = ""
        """Why the last `read_memory` returned None."""

    def freeze(self) -> bool:
        """Stop every process of the sandbox. True: every thread was seen at rest; False: one was still inside the kernel."""
        self.ask_to_freeze()
        return self.frozen()

    def ask_to_freeze(self) -> None:
        """The first half of `freeze`: what the caller does before it asks whether they are `frozen` goes on meanwhile."""
        self._send(b"freeze")

    def has_answered(self) -> bool:
        """Whether an answer has come that was not received yet."""
        return messages.has_come(self._channel)

    def frozen(self) -> bool:
        """The other half."""
        said, _, spent = self._receive().partition(b" ")
        try:
            self.spent = CoreTime.from_bytes(spent)
        except ValueError:
            raise SandboxError("the supervisor of the sandbox answered freeze with something else; kill the sandbox") from None
        return said == b"ok"

    def thaw(self) -> None:
        """Continue every process. No reply, so that the caller can go on at once."""
        self._send(b"thaw")

    def still(self) -> bool:
        """Whether it is stopped and, by the kernel's own count, no thread ran since it was last seen at rest. With a GPU nothing is
        counted, and a sandbox that was seen at rest counts as still."""
        self._send(b"still")
        return self._receive() == b"still"

    def read_memory(self, regions: Sequence[Region]) -> list[bytes] | None:
        """The memory of its first process at these addresses, while it is stopped: at most 1 MiB in 4096 regions. None: one of them could
        not be read, and `memory_unreadable` says why."""
        try:
            self._send(b"read-memory " + inspection.pack(regions))
        except ValueError as error:
            raise SandboxError(f"the memory of the sandbox was not read: {error}") from None
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
            raise SandboxError(f"the memory of the sandbox was not written: {error}") from None
        said, _, why = self._receive().partition(b" ")
        self.memory_unreadable = why.decode("utf-8", "replace")
        return said == b"ok"

    def held_memory(self) -> int:
        """Bytes that its processes hold, at most: also in files in memory, pipes and sockets."""
        self._send(b"memory")
        try:
            return int(self._receive())
        except ValueError:
            raise SandboxError("the supervisor of the sandbox answered memory with something else; kill the sandbox") from None

    def arm(self) -> None:
        """Have the supervisor spin for the next command, so that a thaw that follows soon takes effect at once."""
        self._send(b"arm")

    def use_cores(self, everywhere: bool) -> None:
        """Let the sandbox use all cores, or all but the reserved ones. No reply: it is done before the next command."""
        self._send(b"all-cores" if everywhere else b"few-cores")

    def kill(self) -> None:
        try:
            messages.send(self._channel, b"kill", self._timeout_s)
        except OSError:
            return  # gone already

    def sample_start(self) -> None:
        self._send(b"sample-start")

    def sample_resume(self) -> None:
        """Start counting. No reply, like thaw."""
        self._send(b"sample-resume")

    def sample_pause(self) -> None:
        self._send(b"sample-pause")

    def sample_stop(self) -> dict[str, Any]:
        """`{"samples", "lost", "by_file"}`, or `{"unavailable": why}`."""
        self._send(b"sample-stop")
        return samples_in(self._receive())

    def count_start(self) -> None:
        """From here on `sample_resume` and `sample_pause` are for hardware counters of the threads that are there now, and of those they start."""
        self._send(b"count-start")

    def count_stop(self) -> dict[str, int]:
        """Counts by name; only of those that this machine has and lets be counted."""
        self._send(b"count-stop")
        counts = samples_in(self._receive())
        return {name: count for name, count in counts.items() if isinstance(count, int)}

    def close(self) -> None:
        self._channel.close()

    def _send(self, command: bytes) -> None:
        try:
            messages.send(self._channel, command, self._timeout_s)
        except OSError as error:
            name = command[:20].partition(b" ")[0].decode()
            raise SandboxError(f"the sandbox is gone: {name} could not be sent ({error.strerror or error})") from None

    def _receive(self) -> bytes:
        try:
            return messages.receive(self._channel, self._inbox, self._timeout_s)
        except TimeoutError:
            raise SandboxError(
                f"the supervisor of the sandbox did not answer within {self._timeout_s:g} s; kill the sandbox"
            ) from None
        except (OSError, messages.MalformedMessage):
            raise SandboxError("the sandbox is gone: its supervisor closed the channel") from None


def samples_in(reply: bytes) -> dict[str, Any]:
    """Raises SandboxError for what is no answer to sample-stop."""
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SandboxError("the supervisor of the sandbox answered sample-stop with something else; kill the sandbox")
    return found
