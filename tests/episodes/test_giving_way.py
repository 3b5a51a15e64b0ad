"""A model in this process lets whoever times a kernel have the device, and comes on itself meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bottega.backbone import engine as place
from bottega.backbone.engine import Engine
from bottega.episodes.giving_way import give_way
from bottega.judge.lease import Lease, open_lease


@pytest.fixture
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of our own: other tests time kernels on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(place, "LEAST_STAY", 0.0)
    yield


class Busy:
    """A runner that always has one more window of a hundredth of a second, and remembers when it worked."""

    slots, lag = 1, 1

    def __init__(self) -> None:
        self.under_way = 0
        self.windows = 0

    def session(self):  # type: ignore[no-untyped-def]
        from contextlib import nullcontext

        return nullcontext()

    def take(self, draft: object) -> bool:
        return True

    def prefill(self, drafts: object) -> None: ...

    def drop(self, draft: object) -> None: ...

    def reset(self) -> None: ...

    def launch(self) -> Busy:
        self.under_way += 1
        return self

    draws = 1

    def collect(self) -> list[object]:
        time.sleep(0.01)
        self.under_way -= 1
        self.windows += 1
        return []


class Endless:
    """A draft that is never over."""

    cancelled, launched, limit, version = False, 0, 10**9, 0

    def completion(self, reason: str) -> str:
        return reason

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.future: Future[str] = Future()


class Local:
    """What `give_way` needs of a backbone in this process."""

    device = "cpu"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def give_way(self, turnstile: Callable[[], place.Turnstile]) -> None:
        if self.engine.turnstile is None:
            self.engine.turnstile = turnstile()


class Speaks:
    def __init__(self, backbone: Local) -> None:
        self.backbone = backbone


@pytest.mark.usefixtures("leases")
def test_a_timer_finds_the_device_quiet_and_the_model_goes_on_afterwards() -> None:
    runner = Busy()
    engine = Engine(runner, (), lambda ids: "")  # type: ignore[arg-type]
    speaker = Speaks(Local(engine))
    give_way(speaker)  # type: ignore[arg-type]
    first = engine.turnstile
    give_way(speaker)  # type: ignore[arg-type]
    assert engine.turnstile is first
    try:
        engine.submit([Endless()])  # type: ignore[list-item]
        timer = Lease(open_lease("cpu"))
        for _ in range(5):
            before = runner.windows
            with timer.exclusive():
                assert runner.under_way == 0
                done = runner.windows
                time.sleep(0.05)
                assert runner.windows == done
            deadline = time.monotonic() + 20
            while runner.windows <= done:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            assert done >= before
    finally:
        engine.close()
    assert not timer.wanted()
    with timer.exclusive():
        pass


@pytest.mark.usefixtures("leases")
def test_an_idle_model_keeps_nobody_waiting() -> None:
    runner = Busy()
    engine = Engine(runner, (), lambda ids: "")  # type: ignore[arg-type]
    give_way(Speaks(Local(engine)))  # type: ignore[arg-type]
    try:
        assert engine.between(lambda: 7) == 7
        passed = threading.Event()

        def time_something() -> None:
            with Lease(open_lease("cpu")).exclusive():
                passed.set()

        threading.Thread(target=time_something, daemon=True).start()
        assert passed.wait(20)
    finally:
        engine.close()


def test_a_model_elsewhere_is_left_alone() -> None:
    class Server:
        backbone = object()

    give_way(Server())  # type: ignore[arg-type]
