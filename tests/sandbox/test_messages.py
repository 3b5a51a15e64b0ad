"""Answers of a supervisor: of any length, in packets; and whatever comes instead of one is a `JudgeError` or a cell that is lost."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from bottega.core.errors import JudgeError
from bottega.sandbox import messages
from bottega.sandbox.control import Keeper
from bottega.sandbox.handle import Cell


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
    with pytest.raises((TimeoutError, messages.Garbled)):
        messages.receive(ours, messages.Inbox(), 0.1)


@pytest.mark.parametrize(
    "reply", [b"", b"ok 1 2 3", b".", b".nonsense", b".ok", b".ok 1 2", b".ok 1 2 x", b".\xff\xfe", b".[[1]]"]
)
@pytest.mark.parametrize("command", ["freeze", "sample_stop"])
def test_whatever_is_said_instead_is_an_error_of_the_judge(pair, reply: bytes, command: str) -> None:
    ours, theirs = pair
    theirs.send(reply)
    with pytest.raises(JudgeError):
        getattr(Keeper(ours, timeout_s=0.1), command)()


@pytest.mark.parametrize("reply", [b"", b"nonsense", b".nonsense", b'.{"exit"', b'.{"exit": {"code": 0}}', b".[]"])
def test_a_cell_that_says_anything_else_is_lost_or_has_not_answered(pair, reply: bytes) -> None:
    ours, theirs = pair
    theirs.send(reply)
    with pytest.raises(JudgeError):
        Cell(ours.dup(), ours.dup()).sample_stop()


def test_a_message_without_an_end_is_bounded(pair) -> None:
    inbox = messages.Inbox()
    with pytest.raises(messages.Garbled):
        for _ in range(messages.LONGEST // messages.PACKET + 2):
            assert inbox.take(b"+" + bytes(messages.PACKET)) is None
    assert inbox.take(b".next") == b"next"


def test_samples_of_many_files_with_long_names_arrive(cells) -> None:
    cell, said = cells.start("working_entries:many_libraries")
    with said:
        said.readline()
        keeper = Keeper(cell.reins)
        keeper.sample_start()
        said.readline()
        found = keeper.sample_stop()
        cell.kill()
    if "unavailable" in found:
        pytest.skip(f"no sampling on this machine: {found['unavailable']}")
    assert len(str(found)) > 64 << 10 and sum("é" * 20 in name for name in found["by_file"]) > 300
