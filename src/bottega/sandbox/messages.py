"""Messages of any length between a supervisor and its controlling process, in packets of limited size.

A packet opens with one byte: whether more of the message follows. Sending and receiving have a time limit.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

PACKET = 32 << 10
LONGEST = 4 << 20
_MORE, _LAST = b"+", b"."


class MalformedMessage(Exception):
    """What came is not a message, or is too long."""


def send(channel: socket.socket, message: bytes, wait_s: float, fds: Sequence[int] = ()) -> None:
    """Raises OSError (TimeoutError among them) when the peer is gone, or does not take it in time."""
    deadline = time.monotonic() + wait_s
    whole = memoryview(message)
    for start in range(0, max(1, len(whole)), PACKET):
        more = start + PACKET < len(whole)
        packet = (_MORE if more else _LAST) + whole[start : start + PACKET]
        while True:
            try:
                if fds and start == 0:
                    socket.send_fds(channel, [packet], list(fds), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                else:
                    channel.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                break
            except BlockingIOError:
                _await(channel, select.POLLOUT, deadline)


class Inbox:
    """Assembles the packets of one channel into messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, packet: bytes) -> bytes | None:
        """The message that this packet completes; None when more is to come."""
        mark, part = packet[:1], packet[1:]
        self._parts.append(part)
        self._size += len(part)
        if mark not in (_MORE, _LAST) or self._size > LONGEST:
            self._parts, self._size = [], 0
            raise MalformedMessage(f"a packet of {len(packet)} bytes that belongs to no message")
        if mark == _MORE:
            return None
        message = b"".join(self._parts)
        self._parts, self._size = [], 0
        return message


def receive(channel: socket.socket, inbox: Inbox, wait_s: float) -> bytes:
    """The next message. Raises OSError when none comes in time or the peer is gone, `MalformedMessage` for anything else."""
    deadline = time.monotonic() + wait_s
    while True:
        _await(channel, select.POLLIN, deadline)
        packet = channel.recv(PACKET + 1)
        if not packet:
            raise ConnectionResetError("the channel was closed")
        message = inbox.take(packet)
        if message is not None:
            return message


def has_come(channel: socket.socket) -> bool:
    """Whether `receive` would find something at once: a packet, or the end of the channel."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))


def _await(channel: socket.socket, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(channel, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError("the peer does not answer")
