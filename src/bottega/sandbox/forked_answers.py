"""A sandbox that answers many questions, each in a fork of its own: what is slow to load is loaded once, and no question finds in Python or torch
what another one left behind.

A reply carries the number of its question; one that does not, or a sandbox that is not left as it was, costs the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bottega.sandbox import linux
from bottega.sandbox.channel import (
    MAX_FRAME_BYTES,
    Channel,
    ChannelClosed,
    DeadlinePassed,
    Message,
    ProtocolError,
    channel_pair,
)
from bottega.sandbox.child import close_all_but
from bottega.sandbox.fork_server import ForkServer, Limits, Sandbox

LOADING_S, ANSWERING_S = 60.0, 5.0
"""What a sandbox may take beyond the time of an answer: at first to load what it needs on a busy machine, later to end what hangs."""


@dataclass(frozen=True)
class ForkedAnswer:
    """What came of a question. Untrusted."""

    found: Message | None
    """None where its process gave no answer."""
    status: int = 0
    """How that process ended, as `waitpid` tells it, if it was not ended from outside."""
    late: bool = False


class ForkingSandbox:
    """One sandbox and the channel to it. `entry` calls `answer_in_forks`."""

    def __init__(
        self,
        server: ForkServer,
        entry: str,
        arguments: dict[str, Any] | None = None,
        limits: Limits | None = None,
        largest: int = MAX_FRAME_BYTES,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`largest`: bytes of an answer."""
        self.asked = 0
        """Questions so far."""
        self.fit = True
        """Whether it can be asked again."""
        ours, theirs = channel_pair()
        try:
            self._sandbox: Sandbox = server.spawn(
                entry,
                fds=[theirs.fileno()],
                arguments=arguments,
                limits=limits,
                environment=environment,
                output=False,
                hidden=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._end: socket.socket = ours
        self.channel = Channel(ours, takes_descriptors=False, largest=largest)

    def ask(self, question: Message, seconds: float) -> ForkedAnswer:
        """Raises what a channel raises: then the sandbox is of no use any more."""
        self.asked += 1
        number = secrets.token_hex(8)
        latest = seconds + ANSWERING_S + (LOADING_S if self.asked == 1 else 0)
        self._end.settimeout(latest)
        self.channel.send({**question, "number": number, "seconds": seconds})
        reply = self.channel.receive(time.monotonic() + latest)
        if reply.get("number") != number:
            raise ProtocolError("a reply to nothing that was asked")
        self.fit = reply.get("alone") is True
        found, status = reply.get("found"), reply.get("status")
        return ForkedAnswer(
            found if isinstance(found, dict) else None, status if isinstance(status, int) else 0, reply.get("late") is True
        )

    def end(self) -> None:
        self.fit = False
        self._sandbox.kill()
        self._sandbox.control.close()
        self._end.close()


def answer_in_forks(channel: Channel, answer: Callable[[Message], Message]) -> None:
    """In the sandbox: an answer for each message, until the other end closes or a question leaves a process behind."""
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # what a question leaves behind comes to us
    while True:
        try:
            asked = channel.receive()
        except ChannelClosed:
            return
        reply = _forked(answer, asked, channel.largest)
        channel.send({**reply, "number": asked["number"]})
        if not reply["alone"]:
            return


def _forked(answer: Callable[[Message], Message], asked: Message, largest: int) -> Message:
    ours, theirs = channel_pair()
    child = os.fork()
    if child == 0:
        _answer_and_exit(answer, asked, theirs)
    theirs.close()
    found, late = None, False
    with ours, contextlib.suppress(ChannelClosed, ProtocolError):
        try:
            found = Channel(ours, takes_descriptors=False, largest=largest).receive(time.monotonic() + asked["seconds"])
        except DeadlinePassed:
            late = True
    if late or found is not None:
        os.kill(child, signal.SIGKILL)
    status = _ended(child)
    return {"found": found, "status": 0 if late or found is not None else status, "late": late, "alone": _alone()}


def _ended(child: int) -> int:
    """How it ended; one that only closed its channel has a moment to do so by itself."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _alone() -> bool:
    """Whether no process is left of those that answered."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        return False
    except ChildProcessError:
        return True


def _answer_and_exit(answer: Callable[[Message], Message], asked: Message, end: socket.socket) -> NoReturn:
    """In a process of the question's own; never returns."""
    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # we were hidden from our forks; they are seen by their supervisor
        close_all_but([end.fileno()])
        os.setsid()
        with contextlib.suppress(BaseException):
            Channel(end, takes_descriptors=False).send(answer(asked))
    finally:
        os._exit(0)
