"""Stopped means stopped: nobody outlives a freeze, whatever it is named, whoever dies meanwhile."""

from __future__ import annotations

import mmap
import os
import time

import pytest
from escape_entries import BUFFER

from bottega.judge.keeper import Keeper


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
