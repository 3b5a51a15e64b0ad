"""What the warden does: freeze, thaw, kill, tell how it ended, and leave nobody behind."""

from __future__ import annotations

import json
import mmap
import os
import signal
import time

import pytest

from bottega.core.errors import JudgeError
from bottega.sandbox.control import Keeper


def drained(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    data = b""
    try:
        while chunk := os.read(descriptor, 1 << 16):
            data += chunk
    except BlockingIOError:
        pass
    return data


@pytest.mark.parametrize("which", ["cells", "bare_cells"])
def test_a_frozen_cell_makes_no_progress_and_a_thawed_one_goes_on(which, request):
    cells = request.getfixturevalue(which)
    shared = os.memfd_create("shared")
    os.ftruncate(shared, 4096)
    counters = mmap.mmap(shared, 4096)
    cell, said = cells.start("count_in_threads", fds=[shared])
    with said:
        deadline = time.monotonic() + 20
        while not all(counters[:6]) and time.monotonic() < deadline:
            time.sleep(0.01)
        keeper = Keeper(cell.reins)
        for _ in range(5):
            assert keeper.freeze()
            before = counters[:6]
            time.sleep(0.1)
            assert counters[:6] == before
            keeper.thaw()
            time.sleep(0.1)
            assert counters[:6] != before
        cell.kill()
    os.close(shared)


def test_both_channels_give_the_same_answers(cells):
    cell, said = cells.start("count")
    with said:
        said.read(8)
        assert cell.freeze()
        cell.thaw()
        assert said.read(8 * 100)
        assert Keeper(cell.reins).freeze()
        cell.kill()


def test_the_time_on_a_core_is_that_of_the_turn(cells):
    cell, said = cells.start("count")
    with said:
        said.read(8)
        keeper = Keeper(cell.reins)
        assert keeper.freeze()
        keeper.thaw()
        assert said.read(8 * 100)
        assert keeper.freeze()
        assert keeper.spent.ran > 0  # where the system counts it, as every Linux that this is tested on does
        assert keeper.freeze()
        assert keeper.spent.ran == 0  # it was at rest
        cell.kill()


def test_a_keeper_of_a_dead_cell_is_told_so(cells):
    cell, said = cells.start("sleep")
    said.close()
    keeper = Keeper(cell.reins)
    cell.kill()
    with pytest.raises(JudgeError, match="gone"):
        keeper.freeze()
    keeper.kill()


def test_a_keeper_can_kill(cells):
    cell, said = cells.start("ignore_everything")
    with said:
        said.readline()
        Keeper(cell.reins).kill()
        assert cell.wait(20).reason == "killed"


@pytest.mark.parametrize("which", ["cells", "bare_cells"])
def test_a_daemon_ends_with_its_cell(which, request):
    cells = request.getfixturevalue(which)
    cell, said = cells.start("leave_daemon")
    with said:
        assert cell.wait(20).code == 0
        drained(said.fileno())
        assert said.read() == b"", "somebody still holds the other end"  # end of file: no process has it open


@pytest.mark.parametrize("which", ["cells", "bare_cells"])
@pytest.mark.parametrize("entry", ["ignore_everything", "close_everything", "spin"])
def test_kill_needs_no_consent(which, entry, request):
    cell, said = request.getfixturevalue(which).start(entry)
    with said:
        if entry != "close_everything":
            assert json.loads(said.readline())["pid"]
        cell.kill()
        cell.kill()
        assert said.read() == b""
    ended = cell.wait(0)
    assert ended.reason == "killed" and ended.signal == signal.SIGKILL and ended.code is None


def test_a_frozen_cell_can_be_killed(cells):
    cell, said = cells.start("spin")
    with said:
        said.readline()
        assert cell.freeze()
        cell.kill()
    assert cell.wait(0).reason == "killed"


def test_how_it_ended(cells):
    cell, said = cells.start("fail")
    said.close()
    ended = cell.wait(20)
    assert (ended.code, ended.signal, ended.reason) == (1, None, "exited")
    assert "ValueError: as the test wanted" in ended.output
    cell, said = cells.start("leave", arguments={"code": 7})
    said.close()
    assert cell.wait(20).code == 7
    cell, said = cells.start("crash")
    said.close()
    ended = cell.wait(20)
    assert (ended.code, ended.signal, ended.reason) == (None, signal.SIGSEGV, "signalled")
    cell, said = cells.start("no_such_entry")
    said.close()
    ended = cell.wait(20)
    assert ended.code == 1 and "no_such_entry" in ended.output


def test_a_flood_of_output_leaves_its_end(cells):
    cell, said = cells.start("flood", arguments={"bytes": 2 << 30})
    said.close()
    ended = cell.wait(120)
    assert ended.code == 0
    assert ended.output.endswith("the very end") and len(ended.output) == 8192


def test_output_can_be_left_out(cells):
    cell, said = cells.start("flood", arguments={"bytes": 1 << 20}, output=False)
    said.close()
    assert cell.wait(20).output == ""


def test_samples_name_the_file_that_did_the_work(cells):
    reader, writer = os.pipe()
    cell, said = cells.start("working_entries:busy_loop", fds=[reader], arguments={"n": 400_000_000})
    os.close(reader)
    with said:
        said.readline()
        cell.sample_start()
        os.write(writer, b"x")
        said.readline()
        found = cell.sample_stop()
        os.close(writer)
        again = Keeper(cell.reins)
        again.sample_start()
        idle = again.sample_stop()
        cell.kill()
    if "unavailable" in found:
        pytest.skip(f"no sampling on this machine: {found['unavailable']}")
    assert found["samples"] > 100 and found["lost"] == 0
    assert found["by_file"]["/tmp/busy.so"] > 0.9 * found["samples"], found
    assert idle["samples"] < 10
