"""Compiling beside everything else: it gives way to whoever times, and what fails is told and ended. Sides are stand-ins that keep a diary."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from bottega.judge.baseline_compilation import BaselineCompilation, failure_reason
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.worker_link import RunnerFailed


class FakeSide:
    """Answers when its work is done; work goes on only while it is not frozen."""

    def __init__(self, seconds: float, reply: dict[str, Any] | None = None, alone: Callable[[], bool] = lambda: False) -> None:
        self.left, self.reply, self.alone = seconds, reply or {"loaded": True}, alone
        self.channel = self.control = self
        self.frozen, self.killed, self.begun, self.last = False, False, False, 0.0
        self.worked_beside_a_timer = False
        self.looks = 0

    def tell(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        os.fstat(descriptors[0])
        self.begun, self.last = True, time.monotonic()

    def has_unread(self) -> bool:
        self.looks += 1
        now = time.monotonic()
        if not self.frozen:
            self.left -= now - self.last
            self.worked_beside_a_timer |= self.alone()
        self.last = now
        return self.begun and self.left <= 0

    def listen(self, deadline: float) -> dict[str, Any]:
        return self.reply

    def freeze(self, deadline: float) -> None:
        self.has_unread()
        self.frozen = True

    def thaw(self) -> None:
        self.last, self.frozen = time.monotonic(), False

    def kill(self) -> None:
        self.killed = True


@contextmanager
def lease(name: str) -> Iterator[Lease]:
    descriptors = open_lease(name)
    try:
        yield Lease(descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def compilation(runners: dict[str, FakeSide], held: Lease, seconds: float = 600.0) -> BaselineCompilation:
    payloads = {name: os.memfd_create("payload") for name in runners}
    return BaselineCompilation(runners, payloads, held, seconds)  # type: ignore[arg-type]


NAME = f"test-{os.getpid()}"


def test_a_timer_never_waits_for_the_whole_of_it_and_is_alone() -> None:
    holds = threading.Event()
    runner = FakeSide(600.0, alone=holds.is_set)
    with lease(NAME) as beside, lease(NAME) as timer:
        running = compilation({"compile": runner}, beside)
        until(lambda: runner.begun)
        for _ in range(5):
            with timer.exclusive():
                assert runner.frozen
                holds.set()
                time.sleep(0.02)
                holds.clear()
            until(lambda: not runner.frozen)
        runner.left = 0.0
        assert running.result() == {}
    assert not runner.worked_beside_a_timer and not runner.killed


def test_one_that_fails_and_one_that_takes_too_long_are_told_and_ended() -> None:
    failing = FakeSide(0.0, {"failure": {"stage": "compile", "type": "Unsupported", "text": "no\nway"}})
    slow, quick = FakeSide(600.0), FakeSide(0.0)
    with lease(NAME) as beside:
        running = compilation({"compile": failing, "autotune": slow, "other": quick}, beside, 0.2)
        failed = running.result()
        with beside.exclusive():  # it was let go of
            pass
    assert failed == {"compile": "raises Unsupported: no way", "autotune": "takes more than 0.2 s to compile"}
    assert failing.killed and slow.killed and not quick.killed and quick.frozen


def test_time_in_which_it_was_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, passed = FakeSide(600.0), 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed, sleep=time.sleep)
    monkeypatch.setattr("bottega.judge.baseline_compilation.time", clock)
    with lease(NAME) as beside, lease(NAME) as timer:
        running = compilation({"compile": runner}, beside, 300.0)
        until(lambda: runner.begun)
        with timer.exclusive():
            passed = 3600.0
            looks = runner.looks
        until(lambda: runner.looks > looks + 2)  # it goes on
        runner.left = 0.0
        assert running.result() == {}


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (RunnerFailed("timeout"), "takes more than 9 s"),
        (RunnerFailed("died"), "ends its process"),
        (RunnerFailed("failure", {"type": "RuntimeError", "text": "x" * 900}), "raises RuntimeError: xxx"),
    ],
)
def test_reasons_are_short(failure: RunnerFailed, words: str) -> None:
    assert failure_reason(failure, 9.0).startswith(words) and len(failure_reason(failure, 9.0)) <= 400
