"""Processes that make examples: they end with the one that asks, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bottega.data.parallel import ExampleJob, ProcessMap


@pytest.mark.rotates
def test_processes_do_not_outlive_a_killed_one_nor_leave_semaphores() -> None:
    asking = "import test_parallel; test_parallel.ask_and_die()"
    here = Path(__file__).parent
    killed = subprocess.run(
        [sys.executable, "-c", asking], cwd=here, stdout=subprocess.PIPE, text=True, check=False, timeout=120
    )  # who outlives it holds the pipe
    assert killed.returncode == -signal.SIGKILL
    worker, semaphores = killed.stdout.split()
    assert semaphores == "0"
    until = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < until, "the worker is still there"
        time.sleep(0.05)


def ask_and_die() -> None:
    job: Any = None
    with ProcessMap(job, 1, 2) as workers:
        semaphores = Path("/proc/self/maps").read_text().count("/dev/shm/sem.")
        print(*workers.pieces(_own_number, [1]), semaphores, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def _own_number(_: ExampleJob, __: Sequence[int]) -> int:
    return os.getpid()
