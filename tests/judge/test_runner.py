"""How the referee waits for the end of a call on a GPU: the device's word counts, and a message is only a hint of what went wrong."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottega.judge.arena import Arena
from bottega.judge.barrier import Overdue
from bottega.judge.canary import Glance
from bottega.judge.inputs import Drawn
from bottega.judge.runner import MOST_GAPS, MOST_STIRRED, Side, SideFailed
from bottega.judge.terms import Terms, nothing
from bottega.sandbox.core_time import CoreTime
from bottega.sandbox.wire import Channel, channel_pair, word

NONCE = 77


class Answers:
    """A fence that says what it was told to say."""

    def __init__(self, *answers: bool):
        self.left = list(answers)
        self.words: list[int] = []

    def strike(self, target: Glance, word: int, hold_ns: int, deadline: float) -> bool:
        self.words.append(word)
        if not self.left:
            raise Overdue
        return self.left.pop(0)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = channel_pair()
    with ours, theirs:
        yield Channel(ours), theirs


def waiting(channel: Channel, fence: Any, what: str = "returned", terms: Terms | None = None) -> Any:
    reins: Any = SimpleNamespace(freeze=lambda: True, spent=CoreTime())
    side = Side("candidate", channel, reins, "cuda")
    side.fence = fence
    target = Glance([torch.zeros(64, dtype=torch.uint8)])
    return side._over(target, what, NONCE, 0, terms or patient())


def patient(**options: Any) -> Terms:
    return Terms(
        precision="fp32",
        state="loaded",
        mutates=frozenset(),
        reference_aliases=False,
        deadline=lambda: time.monotonic() + 5,
        settle=nothing,
        hold_call=nothing,
        call_hold_ns=0,
        delivery_hold_ns=0,
        **options,
    )


def test_the_device_s_word_is_enough(ends: tuple[Channel, socket.socket]) -> None:
    fence = Answers(False, False, True)
    assert waiting(ends[0], fence) is None
    assert fence.words == [NONCE] * 3


def test_a_call_and_its_delivery_have_different_words(ends: tuple[Channel, socket.socket]) -> None:
    fence = Answers(True)
    waiting(ends[0], fence, "done")
    assert fence.words == [word("done", NONCE)] != [word("returned", NONCE)]


def test_a_message_that_the_word_confirms_is_handed_on(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1]).send({"returned": NONCE})
    assert waiting(ends[0], Answers(False, True)) == {"returned": NONCE}


def test_a_side_that_waits_for_its_host_is_not_disturbed_for_long(ends: tuple[Channel, socket.socket]) -> None:
    fence = Answers(*[False] * MOST_GAPS, True)
    later = threading.Timer(0.1, Channel(ends[1]).send, [{"returned": NONCE}])
    later.start()
    assert waiting(ends[0], fence) == {"returned": NONCE}
    assert len(fence.words) == MOST_GAPS + 1
    later.join()


def test_others_have_the_device_while_a_player_compiles(ends: tuple[Channel, socket.socket]) -> None:
    player, apart = Channel(ends[1]), []

    @contextmanager
    def lent() -> Iterator[None]:
        apart.append("lent")
        yield
        apart.append("back")

    def compile_and_return() -> None:
        player.send({"compiled": NONCE})
        assert player.receive(time.monotonic() + 5) == {"on": NONCE}
        apart.append("on")
        player.send({"returned": NONCE})

    player.send({"compiling": NONCE})
    thread = threading.Thread(target=compile_and_return)
    thread.start()
    assert waiting(ends[0], Answers(False, True), terms=patient(apart=lent)) == {"returned": NONCE}
    thread.join()
    assert apart == ["lent", "back", "on"]


@pytest.mark.parametrize("second", [{"compiled": 1}, {"returned": NONCE}, {"compiling": NONCE}])
def test_who_speaks_while_it_compiles_is_no_honest_player(ends: tuple[Channel, socket.socket], second: dict[str, Any]) -> None:
    Channel(ends[1]).send({"compiling": NONCE})
    Channel(ends[1]).send(second)
    with pytest.raises(SideFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == "forged"


def test_a_message_without_the_word_is_a_lie(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1]).send({"returned": NONCE})
    with pytest.raises(SideFailed) as caught:
        waiting(ends[0], Answers(False, False, True))
    assert caught.value.kind == "forged"


@pytest.mark.parametrize(
    ("message", "kind"),
    [({"returned": NONCE, "failure": {"kind": "error"}}, "failure"), ({"returned": 1}, "forged"), ({"done": NONCE}, "forged")],
)
def test_what_else_is_said_ends_the_turn(ends: tuple[Channel, socket.socket], message: dict[str, Any], kind: str) -> None:
    Channel(ends[1]).send(message)
    with pytest.raises(SideFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == kind


def test_a_process_that_ends_is_noticed(ends: tuple[Channel, socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(SideFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == "died"


def test_a_device_that_never_comes_round_is_a_timeout(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(SideFailed) as caught:
        waiting(ends[0], Answers())
    assert caught.value.kind == "timeout"


def test_a_side_that_ran_while_the_others_played_gets_no_turn(ends: tuple[Channel, socket.socket]) -> None:
    """Before it is let run for anything: from then on nobody could tell. A few times may be the machine's fault."""
    done: list[str] = []
    reins: Any = SimpleNamespace(still=lambda: False, thaw=lambda: done.append("thaw"), freeze=lambda: True, spent=CoreTime())
    side = Side("candidate", ends[0], reins, "cpu")
    side.inputs = side.outputs = Arena.create("cpu", 1 << 16)
    for _ in range(MOST_STIRRED):
        side._must_have_rested()
    with pytest.raises(SideFailed) as caught:
        side.play(Drawn([], [torch.zeros(4)], "plain"), patient())
    assert caught.value.kind == "forged" and not done
    side.inputs.close()


def test_baselines_that_share_their_inputs_find_the_original_there(ends: tuple[Channel, socket.socket]) -> None:
    sides = [Side(name, ends[0], SimpleNamespace(), "cuda") for name in ("eager", "compile")]  # type: ignore[arg-type]
    arena = Arena.create("cpu", 1 << 16)
    for side in sides:
        side.inputs = arena
    contents = torch.randn(1024)
    drawn = Drawn(None, [contents], "plain")
    sides[0].take_in(drawn)
    specs, _ = sides[1].place(drawn)
    sides[1]._fill(specs, drawn)  # a copy within one memory would overlap
    assert torch.equal(specs[0].view(arena.base), contents)
