"""Each thread of a process that fills the machine has a core of its own, and its first thread and what that starts may use all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bottega.sandbox import threads
from bottega.sandbox.core_places import CorePlaces, FirstCore

CORES = sorted(os.sched_getaffinity(0))
POOL = """
import sys, threading
for _ in range(int(sys.argv[1])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="one core leaves no choice")


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process with so many threads beside its first."""
    command = [sys.executable, "-c", POOL, str(request.param)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def cores_of(process: int) -> dict[int, list[int]]:
    return {thread: sorted(os.sched_getaffinity(thread)) for thread in threads.look([process])}


@pytest.mark.parametrize("pool", [len(CORES) - 1, 2 * len(CORES) - 1], indirect=True)
def test_a_pool_is_spread_and_leaves_one_core_to_the_first_thread(pool: int) -> None:
    places = CorePlaces(pool)
    for _ in range(2):  # a second look changes nothing
        places.place(threads.look([pool]))
        found = cores_of(pool)
        assert found.pop(pool) == CORES
        counts = {core: sum(cores == [core] for cores in found.values()) for core in CORES}
        assert sum(counts.values()) == len(found)
        assert counts.pop(CORES[0]) == 0
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("pool", [len(CORES) - 2], indirect=True)
def test_fewer_threads_than_cores_are_left_alone(pool: int) -> None:
    CorePlaces(pool).place(threads.look([pool]))
    assert all(cores == CORES for cores in cores_of(pool).values())


def test_the_first_thread_keeps_the_choice_of_all() -> None:
    FirstCore().take()
    assert sorted(os.sched_getaffinity(0)) == CORES
