"""Exit codes are right while others start processes."""

import multiprocessing
import os
import signal
import threading

from bottega.learn.cold_start.reaping import ended, start


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_threads_that_start_processes_take_no_exit_code_from_each_other():
    context = multiprocessing.get_context("forkserver")
    codes: list[int | None] = []

    def often() -> None:
        for _ in range(6):
            process = context.Process(target=_die, daemon=True)
            start(process)
            codes.append(ended(process, 30))

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [-signal.SIGKILL] * 24


def test_one_that_goes_on_has_no_exit_code():
    process = multiprocessing.get_context("forkserver").Process(target=signal.pause, daemon=True)
    start(process)
    assert ended(process, 0) is None
    process.kill()
    assert ended(process, 30) == -signal.SIGKILL
