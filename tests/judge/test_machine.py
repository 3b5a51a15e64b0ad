"""How many verdicts a device gets runner by runner."""

from __future__ import annotations

import pytest

from bottega.core.errors import UsageError
from bottega.judge.judge import Judge
from bottega.judge.machine import MOST_WORKERS, worker_count


@pytest.mark.parametrize(
    ("device", "cores", "workers"),
    [
        ("cuda", 16, 16),
        ("cuda:1", 16, 16),
        ("cuda", 8, 4),
        ("cuda", 4, 1),
        ("cuda", 128, MOST_WORKERS),
        ("cpu", 1, 1),
        ("cpu", 4, 1),
        ("cpu", 7, 1),
        ("cpu", 8, 2),
        ("cpu", 64, 4),
    ],
)
def test_auto_is_what_the_cores_carry(device: str, cores: int, workers: int) -> None:
    assert worker_count("auto", device, cores=cores) == workers


def test_devices_share_the_cores() -> None:
    assert worker_count("auto", "cuda:0", devices=4, cores=48) == 12
    assert worker_count("auto", "cuda:0", devices=8, cores=16) == 1


def test_a_number_is_taken_as_it_is() -> None:
    assert worker_count(40, "cpu", cores=2) == 40
    assert worker_count("3", "cuda", devices=8) == 3


@pytest.mark.parametrize("workers", [0, -1, "0", "-2", "many", "", "1.5"])
def test_what_is_no_number_of_workers_is_refused(workers: int | str) -> None:
    with pytest.raises(UsageError, match="workers"):
        worker_count(workers, "cpu")


def test_a_judge_asks_for_as_many_by_itself() -> None:
    with Judge("cpu") as judge:
        assert judge.workers == worker_count("auto", "cpu")
