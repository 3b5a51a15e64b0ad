"""Answers of a supervisor: of any length, in packets; and whatever comes instead of one is a `SandboxError` or a sandbox that is lost."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from bottega.core.errors import SandboxError
from bottega.sandbox import messages
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.handle import Sandbox


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("length", [0, 1, messages.PACKET - 1, messages.PACKET, messages.PACKET + 1, messages.LONGEST])
def test_a_message_of_any_length_arrives_whole(pair, length: int) -> None:
    ours, theirs = pair
    message = os.urandom(length)
    sender = threading.Thread(target=messages.send, args=(theirs, message, 20.0))
    sender.start()
    assert messages.receive(ours, messages.Inbox(), 20.0) == message
    sender.join()


def test_nobody_waits_for_ever(pair) -> None:
    ours, theirs = pair
    with pytest.raises(TimeoutError):
        messages.send(theirs, bytes(messages.LONGEST), 0.1)
    with pytest.raises((TimeoutError, messages.MalformedMessage)):
        messages.receive(ours, messages.Inbox(), 0.1)


@pytest.mark.parametrize(
    "reply", [b"", b"ok 1 2 3", b".", b".nonsense", b".ok", b".ok 1 2", b".ok 1 2 x", b".\xff\xfe", b".[[1]]"]
)
@pytest.mark.parametrize("command", ["freeze", "sample_stop"])
def test_whatever_is_said_instead_is_a_sandbox_error(pair, reply: bytes, command: str) -> None:
    ours, theirs = pair
    theirs.send(reply)
    with pytest.raises(SandboxError):
        getattr(ProcessControl(ours, timeout_s=0.1), command)()


@pytest.mark.parametrize("reply", [b"", b"nonsense", b".nonsense", b'.{"exit"', b'.{"exit": {"code": 0}}', b".[]"])
def test_a_supervisor_that_reports_anything_else_counts_as_lost(pair, reply: bytes) -> None:
    ours, theirs = pair
    theirs.send(reply)
    ended = Sandbox(ours.dup(), ours.dup()).wait(1.0)
    assert ended is not None and ended.reason == "lost"


def test_a_message_without_an_end_is_bounded(pair) -> None:
    inbox = messages.Inbox()
    with pytest.raises(messages.MalformedMessage):
        for _ in range(messages.LONGEST // messages.PACKET + 2):
            assert inbox.take(b"+" + bytes(messages.PACKET)) is None
    assert inbox.take(b".next") == b"next"


@pytest.mark.rotates
def test_samples_of_many_files_with_long_names_arrive(sandboxes) -> None:
    sandbox, said = sandboxes.start("working_entries:many_libraries")
    with said:
        said.readline()
        control = ProcessControl(sandbox.control)
        control.sample_start()
        said.readline()
        found = control.sample_stop()
        sandbox.kill()
    if "unavailable" in found:
        pytest.skip(f"no sampling on this machine: {found['unavailable']}")
    assert len(str(found)) > 64 << 10 and sum("é" * 20 in name for name in found["by_file"]) > 300
