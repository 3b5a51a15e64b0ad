"""Stopped means stopped: nobody outlives a freeze, whatever it is named, whoever dies meanwhile."""

from __future__ import annotations

import json
import mmap
import os
import signal
import time

import pytest
from escape_entries import BUFFER

from bottega.core.errors import JudgeError
from bottega.judge.runner import MOST_STIRRED
from bottega.sandbox import threads
from bottega.sandbox.control import Keeper


@pytest.fixture
def shared():
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, BUFFER)
    with mmap.mmap(descriptor, BUFFER) as memory:
        yield descriptor, memory
    os.close(descriptor)


def stop(keeper: Keeper) -> bool:
    """As the referee does: again and again while somebody is inside the kernel."""
    deadline = time.monotonic() + 20
    while not keeper.freeze():
        if time.monotonic() > deadline:
            return False
    return True


@pytest.mark.parametrize("which", ["cells", "signalled_cells", "user_cells", "bare_cells"])
def test_a_thread_named_like_a_state_line_is_seen(which, request, shared):
    descriptor, memory = shared
    cell, said = request.getfixturevalue(which).start("escape_entries:hidden_reader", fds=[descriptor])
    with said:
        said.readline()
        keeper = Keeper(cell.reins)
        for _ in range(3):
            assert stop(keeper)
            memory[:] = b"\1" * BUFFER
            time.sleep(0.3)
            assert memory[:] == b"\1" * BUFFER, "somebody wrote while the cell was stopped"
            keeper.thaw()
        cell.kill()


@pytest.mark.parametrize("which", ["cells", "signalled_cells", "user_cells", "bare_cells"])
@pytest.mark.parametrize("entry", ["woken_by_an_exit_signal", "woken_as_an_orphaned_group"])
def test_nobody_is_woken_by_a_death(which, entry, request, shared):
    descriptor, memory = shared
    for _ in range(3):
        cell, said = request.getfixturevalue(which).start(f"escape_entries:{entry}", fds=[descriptor])
        with said:
            said.readline()
            keeper = Keeper(cell.reins)
            assert stop(keeper)
            for _ in range(8):
                before = memory[0]
                time.sleep(0.1)
                assert memory[0] == before, "somebody counted while the cell was stopped"
            cell.kill()


@pytest.mark.parametrize("which", ["cells", "signalled_cells", "bare_cells"])
def test_an_honest_cell_is_still_whenever_it_is_stopped(which, request):
    cell, said = request.getfixturevalue(which).start("working_entries:work_in_threads")
    with said:
        assert said.readline()
        keeper = Keeper(cell.reins)
        assert not keeper.still(), "it was never stopped"
        stirred = 0
        for number in range(100):
            assert stop(keeper)
            stirred += not keeper.still()
            if number % 10 == 0:
                time.sleep(0.02)  # the supervisor reaps
            stirred += not keeper.still()
            keeper.thaw()
            if number % 3 == 0:
                time.sleep(0.005)
        assert stirred <= MOST_STIRRED, "a busy machine was once seen to let a thread run on for some microseconds"
        assert not keeper.still(), "it runs"
        cell.kill()


@pytest.mark.parametrize("which", ["cells", "signalled_cells"])
def test_a_cell_that_someone_wakes_is_not_still(which, request):
    """From outside, since nobody inside can: as if a way had been overlooked."""
    cell, said = request.getfixturevalue(which).start("spin")
    with said:
        assert said.readline()
        keeper = Keeper(cell.reins)
        assert stop(keeper) and keeper.still()
        spinning = [
            pid for pid in os.listdir("/proc") if pid.isdigit() and descends(int(pid), os.getpid()) and runs_in_a_cell(pid)
        ]
        if cell.sandbox.stopped_by == "freezer":
            for pid in spinning:
                os.kill(int(pid), signal.SIGCONT)
            time.sleep(0.1)
            assert keeper.still(), "a signal does not end a freeze"
        else:
            for pid in spinning:
                os.kill(int(pid), signal.SIGCONT)
            deadline = time.monotonic() + 10
            while keeper.still() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not keeper.still()
        cell.kill()


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        fields = threads.stat_fields(f"/proc/{pid}")
        pid = int(fields[1]) if fields else 0
    return False


def runs_in_a_cell(pid: str) -> bool:
    """The second process of its name space: the first is the supervisor."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return any(line.startswith(b"NSpid:") and line.split()[-1] == b"2" and len(line.split()) > 2 for line in file)
    except OSError:
        return False


@pytest.mark.parametrize("which", ["cells", "user_cells", "bare_cells"])
def test_the_memory_of_a_stopped_cell_can_be_read(which, request):
    cell, said = request.getfixturevalue(which).start("working_entries:hold_memory")
    with said:
        at = json.loads(said.readline())
        keeper = Keeper(cell.reins)
        assert keeper.read_memory([(at["own"], 16)]) is None and "not stopped" in keeper.memory_unreadable
        assert stop(keeper)
        assert keeper.read_memory([]) == []
        assert keeper.read_memory([(at["own"] + 10, 4), (at["shared"], 5), (at["own"], 0)]) == [
            bytes(range(10, 14)),
            b"hello",
            b"",
        ]
        assert keeper.read_memory([(at["own"], 1 << 20)]) == [bytes(range(256)) * 4096]
        assert keeper.read_memory([(at["own"] + 256 * i, 256) for i in range(4096)]) == [bytes(range(256))] * 4096
        hidden = keeper.read_memory([(at["hidden"], 6)])
        assert hidden == [b"secret"] or "cannot be read" in keeper.memory_unreadable  # kernels may be set to respect it
        for address in (at["truncated"], 4096, (1 << 64) - 4096, (1 << 63) + 1):
            assert keeper.read_memory([(at["own"], 4), (address, 16)]) is None
            assert keeper.memory_unreadable
        for regions in ([(0, 1)] * 4097, [(at["own"], (1 << 20) + 1)], [(-1, 4)]):
            with pytest.raises(JudgeError, match="not read"):
                keeper.read_memory(regions)
        assert stop(keeper) and keeper.still()
        cell.kill()


@pytest.mark.parametrize("which", ["cells", "user_cells", "bare_cells"])
def test_memory_of_a_stopped_cell_s_own_can_be_overwritten(which, request):
    cell, said = request.getfixturevalue(which).start("working_entries:hold_memory")
    with said:
        at = json.loads(said.readline())
        keeper = Keeper(cell.reins)
        assert not keeper.overwrite_memory([(at["own"], 16)]) and "not stopped" in keeper.memory_unreadable
        assert stop(keeper)
        assert keeper.overwrite_memory([(at["own"] + 2, 3), (at["own"] + 100, 1)])
        assert keeper.read_memory([(at["own"], 6)]) == [b"\x00\x01\xff\xff\xff\x05"]
        for address in (at["shared"], at["truncated"], at["private_view"], 4096, at["own"] + (1 << 30)):
            assert not keeper.overwrite_memory([(address, 4)])
            assert "not the process's own" in keeper.memory_unreadable
        assert keeper.read_memory([(at["shared"], 5), (at["private_view"], 4)]) == [b"hello", b"view"]
        assert stop(keeper) and keeper.still()
        cell.kill()
