"""Stopped means stopped: nobody outlives a freeze, whatever it is named, whoever dies meanwhile."""

from __future__ import annotations

import json
import mmap
import os
import signal
import time

import pytest
from escape_entries import BUFFER

from bottega.core.errors import SandboxError
from bottega.judge.worker_link import MOST_RUNS_WHILE_STOPPED
from bottega.sandbox import threads
from bottega.sandbox.control import ProcessControl

pytestmark = pytest.mark.rotates


@pytest.fixture
def shared():
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, BUFFER)
    with mmap.mmap(descriptor, BUFFER) as memory:
        yield descriptor, memory
    os.close(descriptor)


def stop(control: ProcessControl) -> bool:
    """As the controller does: again and again while somebody is inside the kernel."""
    deadline = time.monotonic() + 20
    while not control.freeze():
        if time.monotonic() > deadline:
            return False
    return True


@pytest.mark.parametrize("which", ["sandboxes", "signalled_sandboxes", "user_sandboxes", "bare_sandboxes"])
def test_a_thread_named_like_a_state_line_is_seen(which, request, shared):
    descriptor, memory = shared
    sandbox, said = request.getfixturevalue(which).start("escape_entries:hidden_reader", fds=[descriptor])
    with said:
        said.readline()
        control = ProcessControl(sandbox.control)
        for _ in range(3):
            assert stop(control)
            memory[:] = b"\1" * BUFFER
            time.sleep(0.3)
            assert memory[:] == b"\1" * BUFFER, "somebody wrote while the sandbox was stopped"
            control.thaw()
        sandbox.kill()


@pytest.mark.parametrize("which", ["sandboxes", "signalled_sandboxes", "user_sandboxes", "bare_sandboxes"])
@pytest.mark.parametrize("entry", ["woken_by_an_exit_signal", "woken_as_an_orphaned_group"])
def test_nobody_is_woken_by_a_death(which, entry, request, shared):
    descriptor, memory = shared
    for _ in range(3):
        sandbox, said = request.getfixturevalue(which).start(f"escape_entries:{entry}", fds=[descriptor])
        with said:
            said.readline()
            control = ProcessControl(sandbox.control)
            assert stop(control)
            for _ in range(8):
                before = memory[0]
                time.sleep(0.1)
                assert memory[0] == before, "somebody counted while the sandbox was stopped"
            sandbox.kill()


@pytest.mark.parametrize("which", ["sandboxes", "signalled_sandboxes"])
def test_work_is_counted_though_whoever_did_it_has_ended(which, request):
    sandbox, said = request.getfixturevalue(which).start("escape_entries:work_in_processes_that_end")
    with said:
        said.readline()
        control = ProcessControl(sandbox.control)
        assert stop(control)
        control.thaw()
        time.sleep(0.2)
        assert stop(control)
        assert control.spent.others > 40_000_000, "none of them was there to be asked"
        sandbox.kill()


@pytest.mark.rotates
@pytest.mark.parametrize("which", ["sandboxes", "signalled_sandboxes", "bare_sandboxes"])
def test_an_honest_sandbox_is_still_whenever_it_is_stopped(which, request):
    sandbox, said = request.getfixturevalue(which).start("working_entries:work_in_threads")
    with said:
        assert said.readline()
        control = ProcessControl(sandbox.control)
        assert not control.still(), "it was never stopped"
        stirred = 0
        for number in range(100):
            assert stop(control)
            stirred += not control.still()
            if number % 10 == 0:
                time.sleep(0.02)  # the supervisor reaps
            stirred += not control.still()
            control.thaw()
            if number % 3 == 0:
                time.sleep(0.005)
        assert stirred <= MOST_RUNS_WHILE_STOPPED, "a busy machine was once seen to let a thread run on for some microseconds"
        assert not control.still(), "it runs"
        sandbox.kill()


@pytest.mark.parametrize("which", ["sandboxes", "signalled_sandboxes"])
def test_a_sandbox_that_someone_wakes_is_not_still(which, request):
    """From outside, since nobody inside can: as if a way had been overlooked."""
    sandbox, said = request.getfixturevalue(which).start("spin")
    with said:
        assert said.readline()
        control = ProcessControl(sandbox.control)
        assert stop(control) and control.still()
        spinning = [
            pid for pid in os.listdir("/proc") if pid.isdigit() and descends(int(pid), os.getpid()) and runs_in_a_sandbox(pid)
        ]
        if sandbox.report.stopped_by == "freezer":
            for pid in spinning:
                os.kill(int(pid), signal.SIGCONT)
            time.sleep(0.1)
            assert control.still(), "a signal does not end a freeze"
        else:
            for pid in spinning:
                os.kill(int(pid), signal.SIGCONT)
            deadline = time.monotonic() + 10
            while control.still() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not control.still()
        sandbox.kill()


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        fields = threads.stat_fields(f"/proc/{pid}")
        pid = int(fields[1]) if fields else 0
    return False


def runs_in_a_sandbox(pid: str) -> bool:
    """The second process of its name space: the first is the supervisor."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return any(line.startswith(b"NSpid:") and line.split()[-1] == b"2" and len(line.split()) > 2 for line in file)
    except OSError:
        return False


@pytest.mark.parametrize("which", ["sandboxes", "user_sandboxes", "bare_sandboxes"])
def test_the_memory_of_a_stopped_sandbox_can_be_read(which, request):
    sandbox, said = request.getfixturevalue(which).start("working_entries:hold_memory")
    with said:
        at = json.loads(said.readline())
        control = ProcessControl(sandbox.control)
        assert control.read_memory([(at["own"], 16)]) is None and "not stopped" in control.memory_unreadable
        assert stop(control)
        assert control.read_memory([]) == []
        assert control.read_memory([(at["own"] + 10, 4), (at["shared"], 5), (at["own"], 0)]) == [
            bytes(range(10, 14)),
            b"hello",
            b"",
        ]
        assert control.read_memory([(at["own"], 1 << 20)]) == [bytes(range(256)) * 4096]
        assert control.read_memory([(at["own"] + 256 * i, 256) for i in range(4096)]) == [bytes(range(256))] * 4096
        hidden = control.read_memory([(at["hidden"], 6)])
        assert hidden == [b"secret"] or "cannot be read" in control.memory_unreadable  # kernels may be set to respect it
        for address in (at["truncated"], 4096, (1 << 64) - 4096, (1 << 63) + 1):
            assert control.read_memory([(at["own"], 4), (address, 16)]) is None
            assert control.memory_unreadable
        for regions in ([(0, 1)] * 4097, [(at["own"], (1 << 20) + 1)], [(-1, 4)]):
            with pytest.raises(SandboxError, match="not read"):
                control.read_memory(regions)
        assert stop(control) and control.still()
        sandbox.kill()


@pytest.mark.parametrize("which", ["sandboxes", "user_sandboxes", "bare_sandboxes"])
def test_memory_of_a_stopped_sandbox_s_own_can_be_overwritten(which, request):
    sandbox, said = request.getfixturevalue(which).start("working_entries:hold_memory")
    with said:
        at = json.loads(said.readline())
        control = ProcessControl(sandbox.control)
        assert not control.overwrite_memory([(at["own"], 16)]) and "not stopped" in control.memory_unreadable
        assert stop(control)
        assert control.overwrite_memory([(at["own"] + 2, 3), (at["own"] + 100, 1)])
        assert control.read_memory([(at["own"], 6)]) == [b"\x00\x01\xff\xff\xff\x05"]
        for address in (at["shared"], at["truncated"], at["private_view"], 4096, at["own"] + (1 << 30)):
            assert not control.overwrite_memory([(address, 4)])
            assert "not the process's own" in control.memory_unreadable
        assert control.read_memory([(at["shared"], 5), (at["private_view"], 4)]) == [b"hello", b"view"]
        assert stop(control) and control.still()
        sandbox.kill()
