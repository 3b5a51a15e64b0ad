"""A form's process has the device alone where it times and where torch's compiler tries kernels; the lock and the processes are real."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from episodes.test_end_to_end import made_process
from torch._inductor.runtime import benchmarking
from waiting import until

from bottega.episodes.delivery.device_turn import AskedTurn, OwnTurn, time_trials_alone
from bottega.episodes.delivery.form_process import REST
from bottega.judge import device_lock
from bottega.judge.device_lock import Lease, open_lease


@pytest.fixture(autouse=True)
def lock_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests, and whoever else judges on this machine, have the machine's."""
    monkeypatch.setattr(device_lock, "lease_folder", lambda: tmp_path)


def test_a_form_is_not_timed_while_another_shares_the_device(tmp_path: Path) -> None:
    process = made_process(tmp_path)
    with closing(Lease(open_lease("cpu"))) as other, closing(process):
        with other.shared():
            process.start()
            assert not process.choose([], None, 0.0, lambda text: None).times_ms
            until(lambda: process._wants_alone.is_set() and other.wanted())
            assert not any("result" in (line or {}) for line in process._lines.queue)
        found = process.choose([], None, 60, lambda text: None)
        assert found.times_ms and not found.missing
        until(lambda: not process._wants_alone.is_set())


def test_the_device_is_asked_for_once_and_shared_again() -> None:
    asked: list[bool] = []
    turn = AskedTurn(asked.append)
    with turn.alone(), turn.alone(), turn.shared():
        assert asked == [True]
    assert asked == [True, False]


def test_trials_of_the_compiler_are_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(benchmarking.benchmarker, "benchmark_gpu", lambda run, **options: run(), raising=False)
    time_trials_alone(AskedTurn(asked.append))
    assert benchmarking.benchmarker.benchmark(lambda: len(asked), device="cuda") == 1 and asked == [True, False]


def test_beside_a_search_a_form_has_the_device_alone_seldom(tmp_path: Path) -> None:
    process = made_process(tmp_path)
    with closing(process), closing(Lease(open_lease("cpu"))) as other:
        process.start()
        turns = list[float]()
        for _ in range(2):
            process._wants_alone.set()
            until(other.wanted)
            turns.append(time.monotonic())
            time.sleep(0.1)
            process._wants_alone.clear()
            until(lambda: not other.wanted())
        assert turns[1] - turns[0] > 0.1 * REST


def test_a_turn_of_ones_own_is_the_devices_lock() -> None:
    turn = OwnTurn("cpu")
    with closing(Lease(open_lease("cpu"))) as other:
        with turn.shared(), other.shared():
            assert not other.wanted()
        with turn.alone():
            assert other.wanted()
