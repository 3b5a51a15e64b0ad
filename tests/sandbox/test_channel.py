"""What comes from a foreign process is read whole, bounded and in time, or not at all."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct
import threading
import time

import pytest

from bottega.sandbox.channel import (
    MAX_FRAME_BYTES,
    Channel,
    ChannelClosed,
    DeadlinePassed,
    ProtocolError,
    channel_pair,
    payload_descriptor,
    read_payload,
)


@pytest.fixture
def pair():
    ours, theirs = channel_pair()
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


def frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def test_messages_arrive_whole_and_in_order(pair) -> None:
    ours, theirs = pair
    sender = Channel(theirs)
    messages = [{"number": n, "text": "ß" * n, "list": [1, None, {"a": True}]} for n in range(20)]
    for message in messages:
        sender.send(message)
    assert [ours.receive(soon()) for _ in messages] == messages


def test_a_large_message_arrives_while_both_runners_work(pair) -> None:
    ours, theirs = pair
    message = {"text": "x" * (MAX_FRAME_BYTES - 100)}
    thread = threading.Thread(target=Channel(theirs).send, args=(message,))
    thread.start()
    assert ours.receive(soon(30)) == message
    thread.join()


def test_nobody_waits_for_ever_to_tell_one_who_does_not_listen(pair) -> None:
    ours, theirs = pair
    with pytest.raises(DeadlinePassed):
        for _ in range(1000):
            ours.send({"text": "x" * 4096}, deadline=time.monotonic() + 0.05)
    while select.select([theirs], [], [], 0)[0]:
        theirs.recv(1 << 16)
    ours.send({"text": "y"}, deadline=soon())


def test_a_frame_that_claims_too_much_is_refused_before_it_comes(pair) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack("<I", MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match=str(MAX_FRAME_BYTES + 1)):
        ours.receive(soon())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b"5",
        b"null",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"a": 1',
        b'{"a": 1} {"b": 2}',
        b"[" * 200_000,
        b'{"a": ' + b"9" * 100_000 + b"}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_garbage_breaks_the_protocol_and_nothing_else(pair, body: bytes) -> None:
    ours, theirs = pair
    thread = threading.Thread(target=theirs.sendall, args=(frame(body),))
    thread.start()
    with pytest.raises(ProtocolError):
        ours.receive(soon())
    thread.join()


def test_silence_ends_at_the_deadline(pair) -> None:
    with pytest.raises(DeadlinePassed):
        pair[0].receive(time.monotonic() + 0.05)


def test_a_trickle_does_not_push_the_deadline_back(pair) -> None:
    ours, theirs = pair
    stop = threading.Event()

    def trickle() -> None:
        theirs.sendall(struct.pack("<I", 1000))
        while not stop.wait(0.02):
            theirs.sendall(b" ")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(DeadlinePassed):
            ours.receive(time.monotonic() + 0.3)
    finally:
        stop.set()
        thread.join()


def test_a_closed_channel_is_a_departure(pair) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(soon())
    with pytest.raises(ChannelClosed):
        for _ in range(2):
            ours.send({"hello": True})


def test_a_message_cut_short_is_a_departure(pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(b'{"a": 1}')[:-3])
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(soon())


def test_unread_words_are_noticed(pair) -> None:
    ours, theirs = pair
    assert not ours.has_unread()
    sender = Channel(theirs)
    sender.send({"one": 1})
    sender.send({"two": 2})
    assert ours.has_unread()
    ours.receive(soon())
    assert ours.has_unread()
    ours.receive(soon())
    assert not ours.has_unread()


def test_descriptors_travel_with_a_message(pair) -> None:
    ours, theirs = pair
    payload = payload_descriptor(b"the payload" * 1000)
    Channel(theirs).send({"do": "read"}, [payload, payload])
    os.close(payload)
    ours.receive(soon())
    first, second = ours.claim_descriptors(2)
    assert read_payload(first) == b"the payload" * 1000
    os.close(second)
    with pytest.raises(ProtocolError, match="1 descriptors expected, 0 came"):
        ours.claim_descriptors(1)


def test_unclaimed_descriptors_are_closed_with_the_channel() -> None:
    one, two = channel_pair()
    ours = Channel(one)
    reader, writer = os.pipe()
    Channel(two).send({"take": "this"}, [writer])
    os.close(writer)
    ours.receive(soon())
    ours.close()
    assert os.read(reader, 1) == b""  # the last writing end is gone
    os.close(reader)
    two.close()


def test_looking_before_sleeping_changes_nothing() -> None:
    one, two = channel_pair()
    ours, theirs = Channel(one, spins=50), Channel(two)
    theirs.send({"a": 1})
    assert ours.receive(soon()) == {"a": 1}
    with pytest.raises(DeadlinePassed):
        ours.receive(time.monotonic() + 0.02)
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(soon())
    ours.close()


def test_a_process_with_many_open_files_can_still_listen() -> None:
    """A trainer holds thousands of descriptors; select() knows only the first 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1300:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1100:
            held.append(os.open(os.devnull, os.O_RDONLY))
        ours, theirs = (Channel(end) for end in channel_pair())
        theirs.send({"a": 1})
        assert ours.has_unread()
        assert ours.receive(soon()) == {"a": 1}
        with pytest.raises(DeadlinePassed):
            ours.receive(time.monotonic() + 0.02)
        ours.close()
        theirs.close()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_deadline_waits_for_as_long_as_it_takes(pair) -> None:
    ours, theirs = pair
    threading.Timer(0.1, Channel(theirs).send, args=({"late": True},)).start()
    assert ours.receive() == {"late": True}


def test_sockets_are_streams_of_their_own() -> None:
    one, two = channel_pair()
    with contextlib.closing(one), contextlib.closing(two):
        assert one.type == socket.SOCK_STREAM
        assert not os.get_inheritable(one.fileno())
