"""The fork server: it starts once, serves many, dies with the judge and takes every sandbox along."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from process_tree import descendants, gone
from waiting import until

from bottega.core.errors import SandboxError, UsageError
from bottega.sandbox.fork_server import ForkServer, Limits

ENTRIES = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def server():
    with ForkServer(environment={"PYTHONPATH": ENTRIES}) as running:
        yield running


def start(server: ForkServer, entry: str, **arguments):
    reader, writer = os.pipe()
    sandbox = server.spawn(f"sandbox_entries:{entry}", fds=[writer], arguments=arguments)
    os.close(writer)
    return sandbox, os.fdopen(reader, "rb")


def test_importing_it_imports_no_torch():
    code = "import sys, bottega.sandbox.fork_server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_start_is_idempotent_and_the_server_has_one_thread(server):
    process = server._process
    server.start()
    assert server._process is process
    assert len(os.listdir(f"/proc/{process.pid}/task")) == 1


@pytest.mark.slow
def test_many_sandboxes_in_a_row_leak_nothing(server):
    for _ in range(3):
        server.spawn("bottega.sandbox.child:nothing").wait(20)
    gc.collect()
    time.sleep(0.2)
    descriptors = len(os.listdir("/proc/self/fd"))
    below = len(descendants(os.getpid()))
    server_folder = f"/proc/{server._process.pid}/fd"
    server_descriptors = len(os.listdir(server_folder)) if os.geteuid() == 0 else 0  # it cannot be looked into by its own user
    for _ in range(50):
        assert server.spawn("bottega.sandbox.child:nothing").wait(20).code == 0
    gc.collect()
    deadline = time.monotonic() + 10
    while len(descendants(os.getpid())) > below and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(descendants(os.getpid())) <= below
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert os.geteuid() != 0 or len(os.listdir(server_folder)) == server_descriptors


def test_threads_may_spawn_at_once(server):
    seen: list[dict] = []

    def one(index: int) -> None:
        for turn in range(4):
            sandbox, said = start(server, "describe", index=index, turn=turn)
            with said:
                told = json.loads(said.readline())
            assert sandbox.wait(30).code == 0
            seen.append(told["arguments"])

    threads = [threading.Thread(target=one, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((told["index"], told["turn"]) for told in seen) == [(i, t) for i in range(6) for t in range(4)]


def test_a_sandbox_outlives_the_thread_that_started_the_server():
    box: dict = {}

    def begin() -> None:
        box["server"] = ForkServer(environment={"PYTHONPATH": ENTRIES})
        box["sandbox"], box["said"] = start(box["server"], "sleep", seconds=60)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    time.sleep(0.3)
    with box["said"]:
        assert box["sandbox"].wait(0) is None
    box["server"].close()
    assert box["sandbox"].wait(0).reason == "killed"


def test_a_dropped_sandbox_is_ended(server):
    sandbox, said = start(server, "ignore_everything")
    with said:
        said.readline()
        del sandbox
        gc.collect()
        assert said.read() == b""


def test_many_descriptors_and_large_arguments_arrive(server):
    reader, writer = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    text = "x" * 3_000_000
    sandbox = server.spawn("sandbox_entries:describe", fds=[writer, *[null] * 200], arguments={"text": text})
    os.close(writer)
    os.close(null)
    with os.fdopen(reader, "rb") as said:
        told = json.loads(said.readline())
    assert sandbox.wait(20).code == 0
    assert len(told["passed"]) == 201 and told["arguments"]["text"] == text
    with pytest.raises(UsageError, match="at most"):
        server.spawn("sandbox_entries:describe", fds=[0] * 300)
    with pytest.raises(UsageError, match="pickled"):
        server.spawn("sandbox_entries:describe", arguments={"lock": threading.Lock()})


def test_a_killed_server_is_started_again_and_its_sandboxes_are_lost():
    with ForkServer(environment={"PYTHONPATH": ENTRIES}) as server:
        daemons = start(server, "leave_daemon", linger=600)
        assert daemons[1].readline() == b"tick\n"
        sandbox, said = start(server, "ignore_everything")
        said.readline()
        below = descendants(server._process.pid)
        assert len(below) >= 3
        os.kill(server._process.pid, signal.SIGKILL)
        ended = sandbox.wait(20)
        assert ended is not None and ended.reason in ("lost", "killed")
        assert gone(below)
        said.close()
        daemons[1].close()
        sandbox, said = start(server, "describe")
        with said:
            assert json.loads(said.readline())["pid"]
        assert sandbox.wait(20).code == 0


@pytest.mark.parametrize("modes", [("root", "user", "bare"), ("bare",)])
def test_killing_the_judge_leaves_nobody(modes):
    code = f"""
        import os, sys, time
        from bottega.sandbox.control import ProcessControl
        from bottega.sandbox.fork_server import ForkServer
        server = ForkServer(environment={{"PYTHONPATH": {ENTRIES!r}}}, modes={modes!r})
        reader, writer = os.pipe()
        names = ("ignore_everything", "spin", "leave_daemon", "count")
        kept = [server.spawn("sandbox_entries:" + name, fds=[writer], arguments={{"linger": 600}}) for name in names]
        ProcessControl(kept[1].control).freeze()
        print("up", flush=True)
        time.sleep(600)
    """
    judge = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    try:
        assert judge.stdout.readline() == b"up\n"
        until(lambda: len(descendants(judge.pid)) > 8)
        below = descendants(judge.pid)
    finally:
        judge.kill()
        judge.wait()
        judge.stdout.close()
    assert gone(below)


def test_closing_ends_everything_and_a_closed_server_says_so():
    server = ForkServer(environment={"PYTHONPATH": ENTRIES})
    sandbox, said = start(server, "spin")
    with said:
        said.readline()
        below = descendants(server._process.pid) | {server._process.pid}
        server.close()
        server.close()
    assert sandbox.wait(0).reason == "killed" and gone(below)
    with pytest.raises(SandboxError, match="closed"):
        server.spawn("sandbox_entries:describe")


def test_a_required_sandbox_that_cannot_be_had_is_refused_by_name():
    server = ForkServer(require_sandbox=True, modes=("bare",))
    with pytest.raises(SandboxError, match=r"network.*filesystem.*processes"):
        server.start()
    server.close()


@pytest.mark.slow
def test_without_name_spaces_the_report_names_what_is_missing():
    with ForkServer(environment={"PYTHONPATH": ENTRIES}, modes=("bare",)) as server:
        report = server.report
        assert not report.complete and report.parts["syscalls"] and report.parts["memory"]
        assert {"network", "filesystem", "processes"} <= set(report.missing)
        stopped_by = "signals (no name spaces)"
        assert report.to_json() == {"parts": report.parts, "missing": report.missing, "stopped_by": stopped_by}
        _, said = start(server, "reach_network", host="127.0.0.1", port=9, abstract="none")
        with said:
            told = json.loads(said.readline())
        assert told["connect"] and told["udp"] and not told["local"]
        _, said = start(server, "reach_processes", pids=[os.getpid(), server._process.pid])
        with said:
            told = json.loads(said.readline())
        assert all(told.values()) or "landlock" not in report.missing["processes"], told
        secret = os.path.expanduser("~/.profile")
        _, said = start(server, "read_and_write", read=[secret], write=[str(Path(__file__).parent), "/etc"])
        with said:
            told = json.loads(said.readline())
        assert all(told.values()), told
        limits = Limits(memory_bytes=600 << 20)
        ended = server.spawn("sandbox_entries:hog_memory", fds=[os.open("/dev/null", os.O_WRONLY)], limits=limits).wait(60)
        assert ended is not None and ended.reason == "memory"


def test_a_server_that_is_killed_while_it_starts_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Killed(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            begun.append(self)
            if len(begun) == 1:
                self.kill()

    monkeypatch.setattr(subprocess, "Popen", Killed)
    with ForkServer() as server:
        assert len(begun) == 2 and server.report.to_json()["parts"]
