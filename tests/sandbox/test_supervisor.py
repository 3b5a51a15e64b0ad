"""What the supervisor does: freeze, thaw, kill, tell how it ended, and leave nobody behind."""

from __future__ import annotations

import json
import mmap
import os
import signal
import time

import pytest
from waiting import until

from bottega.core.errors import SandboxError
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.perf_counters import EVENTS


def drained(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    data = b""
    try:
        while chunk := os.read(descriptor, 1 << 16):
            data += chunk
    except BlockingIOError:
        pass
    return data


@pytest.mark.parametrize("which", ["sandboxes", "bare_sandboxes"])
def test_a_frozen_sandbox_makes_no_progress_and_a_thawed_one_goes_on(which, request):
    sandboxes = request.getfixturevalue(which)
    shared = os.memfd_create("shared")
    os.ftruncate(shared, 4096)
    counters = mmap.mmap(shared, 4096)
    sandbox, said = sandboxes.start("count_in_threads", fds=[shared])
    with said:
        until(lambda: all(counters[:6]))
        control = ProcessControl(sandbox.control)
        for _ in range(5):
            assert control.freeze()
            before = counters[:6]
            time.sleep(0.1)
            assert counters[:6] == before
            control.thaw()
            until(lambda before=before: counters[:6] != before)
        sandbox.kill()
    os.close(shared)


def test_the_time_on_a_core_is_that_of_the_call(sandboxes):
    sandbox, said = sandboxes.start("count")
    with said:
        said.read(8)
        control = ProcessControl(sandbox.control)
        assert control.freeze()
        control.thaw()
        assert said.read(8 * 100)
        assert control.freeze()
        assert control.spent.ran > 0  # where the system counts it, as every Linux that this is tested on does
        assert control.freeze()
        assert control.spent.ran == 0  # it was at rest
        sandbox.kill()


def test_a_keeper_of_a_dead_sandbox_is_told_so(sandboxes):
    sandbox, said = sandboxes.start("sleep")
    said.close()
    control = ProcessControl(sandbox.control)
    sandbox.kill()
    with pytest.raises(SandboxError, match="gone"):
        control.freeze()
    control.kill()


def test_a_keeper_can_kill(sandboxes):
    sandbox, said = sandboxes.start("ignore_everything")
    with said:
        said.readline()
        ProcessControl(sandbox.control).kill()
        assert sandbox.wait(20).reason == "killed"


@pytest.mark.parametrize("which", ["sandboxes", "bare_sandboxes"])
def test_a_daemon_ends_with_its_sandbox(which, request):
    sandboxes = request.getfixturevalue(which)
    sandbox, said = sandboxes.start("leave_daemon")
    with said:
        assert sandbox.wait(20).code == 0
        drained(said.fileno())
        assert said.read() == b"", "somebody still holds the other end"  # end of file: no process has it open


@pytest.mark.parametrize("which", ["sandboxes", "bare_sandboxes"])
@pytest.mark.parametrize("entry", ["ignore_everything", "close_everything", "spin"])
def test_kill_needs_no_consent(which, entry, request):
    sandbox, said = request.getfixturevalue(which).start(entry)
    with said:
        if entry != "close_everything":
            assert json.loads(said.readline())["pid"]
        sandbox.kill()
        sandbox.kill()
        assert said.read() == b""
    ended = sandbox.wait(0)
    assert ended.reason == "killed" and ended.signal == signal.SIGKILL and ended.code is None


def test_a_frozen_sandbox_can_be_killed(sandboxes):
    sandbox, said = sandboxes.start("spin")
    with said:
        said.readline()
        assert ProcessControl(sandbox.control).freeze()
        sandbox.kill()
    assert sandbox.wait(0).reason == "killed"


def test_how_it_ended(sandboxes):
    sandbox, said = sandboxes.start("fail")
    said.close()
    ended = sandbox.wait(20)
    assert (ended.code, ended.signal, ended.reason) == (1, None, "exited")
    assert "ValueError: as the test wanted" in ended.output
    sandbox, said = sandboxes.start("leave", arguments={"code": 7})
    said.close()
    assert sandbox.wait(20).code == 7
    sandbox, said = sandboxes.start("crash")
    said.close()
    ended = sandbox.wait(20)
    assert (ended.code, ended.signal, ended.reason) == (None, signal.SIGSEGV, "signalled")
    sandbox, said = sandboxes.start("no_such_entry")
    said.close()
    ended = sandbox.wait(20)
    assert ended.code == 1 and "no_such_entry" in ended.output


@pytest.mark.rotates
def test_a_flood_of_output_leaves_its_end(sandboxes):
    sandbox, said = sandboxes.start("flood", arguments={"bytes": 2 << 30})
    said.close()
    ended = sandbox.wait(120)
    assert ended.code == 0
    assert ended.output.endswith("the very end") and len(ended.output) == 8192


def test_output_can_be_left_out(sandboxes):
    sandbox, said = sandboxes.start("flood", arguments={"bytes": 1 << 20}, output=False)
    said.close()
    assert sandbox.wait(20).output == ""


@pytest.mark.rotates
def test_samples_name_the_file_that_did_the_work(sandboxes):
    reader, writer = os.pipe()
    sandbox, said = sandboxes.start("working_entries:busy_loop", fds=[reader], arguments={"n": 400_000_000})
    os.close(reader)
    with said:
        said.readline()
        control = ProcessControl(sandbox.control)
        control.sample_start()
        os.write(writer, b"x")
        said.readline()
        found = control.sample_stop()
        os.close(writer)
        control.sample_start()
        idle = control.sample_stop()
        sandbox.kill()
    if "unavailable" in found:
        pytest.skip(f"no sampling on this machine: {found['unavailable']}")
    assert found["samples"] > 100 and found["lost"] == 0
    assert found["by_file"]["/tmp/busy.so"] > 0.9 * found["samples"], found
    assert idle["samples"] < 10


def test_counters_count_what_the_machine_has_and_leave_sampling_as_it_was(sandboxes):
    reader, writer = os.pipe()
    sandbox, said = sandboxes.start("working_entries:busy_loop", fds=[reader], arguments={"n": 20_000_000})
    os.close(reader)
    with said:
        said.readline()
        control = ProcessControl(sandbox.control)
        assert control.count_stop() == {}, "none was begun"
        control.count_start()
        control.sample_resume()
        os.write(writer, b"x")
        said.readline()
        control.sample_pause()
        counts = control.count_stop()
        os.close(writer)
        control.sample_start()
        idle = control.sample_stop()
        sandbox.kill()
    assert set(counts) <= set(EVENTS)
    assert counts.get("instructions", 10**9) > 10_000_000
    assert "unavailable" in idle or idle["samples"] < 10
