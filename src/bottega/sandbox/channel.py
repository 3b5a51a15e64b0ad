"""Framed JSON messages over a stream socket, between a trusted process and one that runs foreign code.

Everything that comes from a process running foreign code is read here, so every read is bounded in size and time,
and nothing is ever unpickled. A malformed message raises, a closed channel raises, and nothing blocks past its deadline.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

MAX_FRAME_BYTES = 4 << 20
LONGEST_WAIT = 86400.0
_HEADER = struct.Struct("<I")
_MAX_DESCRIPTORS = 32
_SIZE_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

Message = dict[str, Any]


class ChannelClosed(Exception):
    """The peer closed the channel: it ended or was killed."""


class DeadlinePassed(Exception):
    """No whole message came before the deadline."""


class ProtocolError(Exception):
    """What came is not a valid message."""


class Channel:
    """One end of a connection. `receive` returns whole messages or raises one of the three exceptions above."""

    def __init__(self, end: socket.socket, spins: int = 0, takes_descriptors: bool = True, largest: int = MAX_FRAME_BYTES):
        self.socket = end
        self.largest = largest
        """Bytes of a message that is received."""
        self.takes_descriptors = takes_descriptors
        """A channel from a hostile process takes none: a flood of them would use up this process's own."""
        self.spins = spins
        """How often to poll before sleeping: where cores are plenty, spinning is quicker and steadier than waking up."""
        self.received_ns = 0
        """When the latest bytes came, on the performance counter."""
        self._pending = bytearray()
        self.descriptors: list[int] = []
        """File descriptors that arrived and were not claimed yet."""

    @classmethod
    def from_descriptor(
        cls, descriptor: int, spins: int = 0, takes_descriptors: bool = True, largest: int = MAX_FRAME_BYTES
    ) -> Channel:
        return cls(socket.socket(fileno=descriptor), spins, takes_descriptors, largest)

    def send(self, message: Message, descriptors: Sequence[int] = (), deadline: float | None = None) -> None:
        """A hostile process may leave messages unread until the buffer is full: send to it with a `deadline`."""
        body = json.dumps(message, separators=(",", ":")).encode()
        frame = _HEADER.pack(len(body)) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        flags = 0 if deadline is None else socket.MSG_DONTWAIT
        try:
            while frame:
                try:
                    sent = self.socket.sendmsg([frame], rights, flags) if rights else self.socket.send(frame, flags)
                    frame, rights = frame[sent:], []  # a sandboxed process may lack sendmsg
                except BlockingIOError:
                    if deadline is None or not self._ready(select.POLLOUT, deadline - time.monotonic()):
                        raise DeadlinePassed from None
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self, deadline: float | None = None) -> Message:
        """The next message, waiting until `deadline` on the monotonic clock."""
        length = self._take(_HEADER.size, deadline)
        (size,) = _HEADER.unpack(length)
        if size > self.largest:
            raise ProtocolError(f"a message of {size} bytes")
        body = self._take(size, deadline)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise ProtocolError("a message that is not JSON") from None
        if not isinstance(message, dict):
            raise ProtocolError("a message that is not an object")
        return message

    def claim_descriptors(self, count: int) -> list[int]:
        if len(self.descriptors) < count:
            raise ProtocolError(f"{count} descriptors expected, {len(self.descriptors)} came")
        claimed, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return claimed

    def has_unread(self) -> bool:
        """Whether a message or part of one has come that was not received yet."""
        return bool(self._pending) or self._ready(select.POLLIN, 0)

    def close(self) -> None:
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def _take(self, count: int, deadline: float | None) -> bytes:
        while len(self._pending) < count:
            data, ancillary = self._next_bytes(deadline)
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    received = array.array("i")
                    received.frombytes(payload[: len(payload) - len(payload) % 4])
                    self.descriptors.extend(received)
            self.received_ns = time.perf_counter_ns()
            if not data:
                raise ChannelClosed("the channel was closed")
            self._pending += data
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def _ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()  # unlike select, it takes descriptors of any number
        poll.register(self.socket, event)
        return seconds >= 0 and bool(poll.poll(min(seconds, LONGEST_WAIT) * 1000))

    def _next_bytes(self, deadline: float | None) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        room = socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS) if self.takes_descriptors else 0
        try:
            for _ in range(self.spins):
                try:
                    return self.socket.recvmsg(1 << 16, room, socket.MSG_DONTWAIT)[:2]
                except BlockingIOError:
                    continue
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not self._ready(select.POLLIN, left):
                    raise DeadlinePassed
            return self.socket.recvmsg(1 << 16, room)[:2]
        except OSError as error:
            raise ChannelClosed(str(error)) from None


SPINS = 20_000
"""About twenty milliseconds of polling."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def payload_descriptor(data: bytes) -> int:
    """An anonymous file that holds `data`: for what is too large for a message. Whoever gets it can only read it: a file that a hostile process
    could let grow, and close, would be memory that counts for nobody while we have it open."""
    descriptor = _anonymous_file()
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | _SIZE_SEALS)
    return descriptor


def room_descriptor(size: int) -> int:
    """An anonymous file of so many bytes, never more, for an answer that is too large for a message."""
    descriptor = _anonymous_file()
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SIZE_SEALS)
    return descriptor


def _anonymous_file() -> int:
    return os.memfd_create("bottega-payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def read_payload(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
