"""Exit codes are right while others start processes."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from multiprocessing import forkserver

import pytest

from bottega.data.process_lock import ended, start


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_whoever_starts_a_process_takes_no_exit_code_from_another(monkeypatch: pytest.MonkeyPatch):
    """One thread is slow to read the code of a process that has ended, and meanwhile another starts one, which looks after all."""
    context = multiprocessing.get_context("forkserver")
    dead, other = (context.Process(target=_die, daemon=True) for _ in range(2))
    start(dead)
    read, codes = forkserver.read_signed, []
    slow = threading.Thread(target=lambda: codes.append(ended(dead, 30)))

    def read_slowly(descriptor: int) -> int:
        time.sleep(0.5 if threading.current_thread() is slow else 0.0)
        return read(descriptor)

    multiprocessing.connection.wait([dead.sentinel], 30)
    monkeypatch.setattr(forkserver, "read_signed", read_slowly)
    slow.start()
    time.sleep(0.2)
    start(other)
    slow.join()
    assert codes == [-signal.SIGKILL]
    assert ended(other, 30) == -signal.SIGKILL


def test_one_that_goes_on_has_no_exit_code():
    process = multiprocessing.get_context("forkserver").Process(target=signal.pause, daemon=True)
    start(process)
    assert ended(process, 0) is None
    process.kill()
    assert ended(process, 30) == -signal.SIGKILL
