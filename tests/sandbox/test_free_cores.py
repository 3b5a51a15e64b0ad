"""Cores kept free for timing: who is kept off them, who may use them, and that a machine with few keeps none."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import pytest

from bottega.sandbox import free_cores

CORES = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(CORES) < 2, reason="one core cannot be divided")


def told_by(child: Callable[[], object]) -> object:
    """In a process of its own: what it may use must stay as it is here."""
    read, write = os.pipe()
    if (process := os.fork()) == 0:
        try:
            os.write(write, json.dumps(child()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        found = file.read()
    os.waitpid(process, 0)
    return json.loads(found)


def used(thread: int = 0) -> list[int]:
    return sorted(os.sched_getaffinity(thread))


@several
def test_whoever_is_kept_off_comes_back_for_timing() -> None:
    def child() -> list[list[int]]:
        free_cores.keep_off(kept=1, fewest=2)
        found = [used()]
        for everywhere in (True, False):
            free_cores.allow([0], everywhere, kept=1)
            found.append(used())
        return found

    assert told_by(child) == [CORES[:-1], CORES, CORES[:-1]]


@several
def test_every_thread_of_a_process_is_moved_and_one_that_is_gone_is_passed_over() -> None:
    def child() -> list[bool]:
        free_cores.keep_off(kept=1, fewest=2)
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        threads = free_cores.threads_of([os.getpid(), 2**22 + 1])
        free_cores.allow([2**22 + 1, *threads], everywhere=True)
        found = [thread.native_id in threads, *(used(each) == CORES for each in threads)]
        done.set()
        thread.join()
        return found

    assert told_by(child) == [True, True, True]


def test_a_machine_with_few_cores_keeps_none_free() -> None:
    def child() -> list[list[int]]:
        free_cores.keep_off(kept=1, fewest=len(CORES) + 1)
        free_cores.allow([0], everywhere=False, kept=1)
        return [used()]

    assert told_by(child) == [CORES]
