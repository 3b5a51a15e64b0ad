"""How the controller waits for the end of a call on a GPU: the device's flag counts, and a message is only a hint of what went wrong."""

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
from bottega.judge.barrier import BarrierTimeout, flag_value
from bottega.judge.call_options import CallOptions, no_op
from bottega.judge.canary import Canary
from bottega.judge.inputs import InputSet
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.runner import MOST_GAPS, Runner
from bottega.judge.worker_link import MOST_RUNS_WHILE_STOPPED, RunnerFailed
from bottega.sandbox.channel import Channel, channel_pair
from bottega.sandbox.core_time import CoreTime

NONCE = 77


class Answers:
    """A barrier that says what it was told to say."""

    def __init__(self, *answers: bool):
        self.left = list(answers)
        self.values: list[int] = []

    def apply(self, target: Canary, expected: int, hold_ns: int, deadline: float) -> bool:
        self.values.append(expected)
        if not self.left:
            raise BarrierTimeout
        return self.left.pop(0)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = channel_pair()
    with ours, theirs:
        yield Channel(ours), theirs


def waiting(channel: Channel, barrier: Any, what: str = "returned", options: CallOptions | None = None) -> Any:
    control: Any = SimpleNamespace(freeze=lambda: True, spent=CoreTime())
    runner = Runner("candidate", channel, control, "cuda")
    runner.barrier = barrier
    target = Canary([torch.zeros(64, dtype=torch.uint8)])
    return runner._wait_for(what, NONCE, target, 0, options or patient())


def patient(seconds: float = 60.0, **options: Any) -> CallOptions:
    return CallOptions(
        precision="fp32",
        state="loaded",
        mutates=frozenset(),
        aliased=frozenset(),
        deadline=lambda: time.monotonic() + seconds,
        prepare_device=no_op,
        hold_call=no_op,
        call_hold_ns=0,
        delivery_hold_ns=0,
        **options,
    )


def test_the_device_s_flag_is_enough(ends: tuple[Channel, socket.socket]) -> None:
    barrier = Answers(False, False, True)
    assert waiting(ends[0], barrier) is None
    assert barrier.values == [NONCE] * 3


def test_a_call_and_its_delivery_have_different_values(ends: tuple[Channel, socket.socket]) -> None:
    barrier = Answers(True)
    waiting(ends[0], barrier, "done")
    assert barrier.values == [flag_value("done", NONCE)] != [flag_value("returned", NONCE)]


def test_a_message_that_the_flag_confirms_is_handed_on(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1]).send({"returned": NONCE})
    assert waiting(ends[0], Answers(False, True)) == {"returned": NONCE}


def test_a_worker_that_waits_for_its_host_is_not_disturbed_for_long(ends: tuple[Channel, socket.socket]) -> None:
    barrier = Answers(*[False] * MOST_GAPS, True)
    later = threading.Timer(0.1, Channel(ends[1]).send, [{"returned": NONCE}])
    later.start()
    assert waiting(ends[0], barrier) == {"returned": NONCE}
    assert len(barrier.values) == MOST_GAPS + 1
    later.join()


def test_others_have_the_device_while_a_worker_compiles(ends: tuple[Channel, socket.socket]) -> None:
    worker, apart = Channel(ends[1]), []

    @contextmanager
    def lent() -> Iterator[None]:
        apart.append("lent")
        yield
        apart.append("back")

    def compile_and_return() -> None:
        worker.send({"compiled": NONCE})
        assert worker.receive(time.monotonic() + 60) == {"on": NONCE}
        apart.append("on")
        worker.send({"returned": NONCE})

    worker.send({"compiling": NONCE})
    thread = threading.Thread(target=compile_and_return)
    thread.start()
    assert waiting(ends[0], Answers(False, True), options=patient(released=lent)) == {"returned": NONCE}
    thread.join()
    assert apart == ["lent", "back", "on"]


@pytest.mark.parametrize("second", [{"compiled": 1}, {"returned": NONCE}, {"compiling": NONCE}])
def test_who_speaks_while_it_compiles_is_no_honest_player(ends: tuple[Channel, socket.socket], second: dict[str, Any]) -> None:
    Channel(ends[1]).send({"compiling": NONCE})
    Channel(ends[1]).send(second)
    with pytest.raises(RunnerFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == "forged"


def test_a_message_without_the_flag_is_a_lie(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1]).send({"returned": NONCE})
    with pytest.raises(RunnerFailed) as caught:
        waiting(ends[0], Answers(False, False, True))
    assert caught.value.kind == "forged"


@pytest.mark.parametrize(
    ("message", "kind"),
    [({"returned": NONCE, "failure": {"kind": "error"}}, "failure"), ({"returned": 1}, "forged"), ({"done": NONCE}, "forged")],
)
def test_what_else_is_said_ends_the_turn(ends: tuple[Channel, socket.socket], message: dict[str, Any], kind: str) -> None:
    Channel(ends[1]).send(message)
    with pytest.raises(RunnerFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == kind


def test_a_process_that_ends_is_noticed(ends: tuple[Channel, socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(RunnerFailed) as caught:
        waiting(ends[0], Answers(*[False] * 9))
    assert caught.value.kind == "died"


def test_a_device_that_never_comes_round_is_a_timeout(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(RunnerFailed) as caught:
        waiting(ends[0], Answers(), options=patient(0.2))
    assert caught.value.kind == "timeout"


def test_a_worker_that_ran_while_the_others_played_gets_no_turn(ends: tuple[Channel, socket.socket]) -> None:
    """Before it is let run for anything: from then on nobody could tell. A few times may be the machine's fault."""
    done: list[str] = []
    control: Any = SimpleNamespace(still=lambda: False, thaw=lambda: done.append("thaw"), freeze=lambda: True, spent=CoreTime())
    runner = Runner("candidate", ends[0], control, "cpu")
    runner.inputs = runner.outputs = Arena.create("cpu", 1 << 16)
    for _ in range(MOST_RUNS_WHILE_STOPPED):
        runner._check_stayed_stopped()
    with pytest.raises(RunnerFailed) as caught:
        runner.run_call(InputSet([], [torch.zeros(4)], "plain"), patient())
    assert caught.value.kind == "forged" and not done
    runner.inputs.close()


def test_baselines_that_share_their_inputs_find_the_original_there(ends: tuple[Channel, socket.socket]) -> None:
    runners = [Runner(name, ends[0], SimpleNamespace(), "cuda") for name in ("eager", "compile")]  # type: ignore[arg-type]
    arena = Arena.create("cpu", 1 << 16)
    for runner in runners:
        runner.inputs = arena
    contents = torch.randn(1024)
    inputs = InputSet(None, [contents], "plain")
    runners[0].take_in(inputs)
    specs, _ = runners[1]._place(inputs)
    runners[1]._fill(specs, inputs)  # a copy within one memory would overlap
    assert torch.equal(specs[0].view(arena.base), contents)


def test_contents_that_nobody_took_in_need_an_arena(ends: tuple[Channel, socket.socket]) -> None:
    runner = Runner("candidate", ends[0], SimpleNamespace(), "cpu")  # type: ignore[arg-type]
    with pytest.raises(InvalidTask):
        runner._place(InputSet(None, [torch.zeros(4)], "plain"))
