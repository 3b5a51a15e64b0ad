"""What a sandbox cannot see, reach or touch."""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import struct

import pytest

from bottega.sandbox.fork_server import ForkServer
from bottega.sandbox.syscalls import ABSENT, ALARMS, DENIED, IGNORED, SENDING, filter_program


@pytest.fixture(autouse=True)
def whole_sandbox(server):
    if not server.report.complete:
        pytest.skip(f"this machine gives no whole sandbox: {server.report}")


def test_a_child_owns_nothing_but_what_it_was_given(sandboxes, server):
    seen, ended = sandboxes.run("describe", arguments={"text": "é", "nested": {"a": [1, 2.5, None]}})
    assert ended.code == 0
    assert seen["pid"] == 2 and seen["parent"] == 1 and seen["processes"] == [1, 2] and seen["threads"] == "1"
    assert seen["uid"] != 0 and seen["groups"] == []
    assert seen["capabilities"] == ["0" * 16] * 5
    assert seen["no_new_privileges"] == "1" and seen["seccomp"] == "2"
    assert seen["core"] == [1, 1]
    assert seen["cwd"] == seen["environment"]["HOME"] == "/tmp/home"
    assert set(seen["descriptors"]) - {0, 1, 2} <= {*seen["passed"], max(seen["descriptors"])} and len(seen["descriptors"]) <= 5
    assert not {"home", "run", "var", "mnt"} & set(seen["root"])
    assert seen["arguments"] == {"text": "é", "nested": {"a": [1, 2.5, None]}}
    report = server.report.to_json()
    assert report["parts"] == dict.fromkeys(server.report.parts, True) and report["missing"] == {}
    assert report["stopped_by"].startswith(("freezer", "signals ("))


def test_no_secret_of_the_environment_crosses(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "swordfish")
    monkeypatch.setenv("CUDA_API_KEY", "swordfish")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    here = os.path.dirname(__file__)
    reader, writer = os.pipe()
    with ForkServer(environment={"PYTHONPATH": here, "GREETING": "hello"}) as own, os.fdopen(reader, "rb") as said:
        sandbox = own.spawn("sandbox_entries:describe", fds=[writer], environment={"ONLY_HERE": "1"})
        os.close(writer)
        seen = json.loads(said.readline())
        sandbox.kill()
    assert "swordfish" not in seen["environ"] and "swordfish" not in str(seen["environment"])
    assert seen["environment"]["GREETING"] == "hello" and seen["environment"]["ONLY_HERE"] == "1"
    assert seen["environment"]["OMP_NUM_THREADS"] == "2"


def test_random_numbers_differ_between_sandboxes(sandboxes):
    first, second = (sandboxes.run("random_numbers")[0]["numbers"] for _ in range(2))
    assert first[0] != second[0] and first[1] != second[1]


def test_files_of_the_host_are_not_there_and_the_rest_is_read_only(sandboxes, tmp_path):
    secret = tmp_path / "task.py"
    secret.write_text("the expected answer")
    home = os.path.expanduser("~")
    hidden = [str(secret), str(tmp_path), home + "/.bashrc", home + "/.ssh", "/run", "/var/log", "/home", "/etc/shadow"]
    hidden += ["/proc/1/root", "/proc/kcore", "/dev/mem", "/dev/kmsg"]
    read_only = ["/", "/usr", "/etc", "/usr/lib", "/proc/sys/kernel", "/sys/kernel", os.path.dirname(__file__), home]
    arguments = {"read": [*hidden, "/usr/bin", "/proc/self"], "write": [*read_only, "/tmp", "/dev/shm"]}
    seen, _ = sandboxes.run("read_and_write", arguments=arguments)
    for path in hidden:
        assert seen[path], f"{path} could be read"
    for path in read_only:
        assert seen["write " + path], f"{path} could be written"
    for path in ("/usr/bin", "/proc/self", "write /tmp", "write /dev/shm"):
        assert seen[path] == "", seen[path]
    assert sorted(os.listdir(tmp_path)) == ["task.py"]


def test_scratch_is_private_to_a_sandbox(sandboxes):
    sandboxes.run("read_and_write", arguments={"write": ["/tmp"]})
    seen, _ = sandboxes.run("read_and_write", arguments={"read": ["/tmp/intruder"]})
    assert "FileNotFoundError" in seen["/tmp/intruder"]
    assert not os.path.exists("/tmp/intruder")


def test_extra_folders_can_be_read_and_writable_ones_written(sandboxes, tmp_path):
    shown, cache = tmp_path / "shown", tmp_path / "cache"
    shown.mkdir()
    cache.mkdir()
    (shown / "data").write_text("x")
    reader, writer = os.pipe()
    with ForkServer(environment={"PYTHONPATH": os.path.dirname(__file__)}, extra_readonly=[str(shown)]) as own:
        arguments = {"read": [str(shown / "data"), str(tmp_path / "other")], "write": [str(shown), str(cache)]}
        sandbox = own.spawn("sandbox_entries:read_and_write", fds=[writer], arguments=arguments, writable=[str(cache)])
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            seen = json.loads(said.readline())
        assert sandbox.wait(20).code == 0
    assert seen[str(shown / "data")] == "" and seen["write " + str(cache)] == ""
    assert seen["write " + str(shown)]
    assert (cache / "intruder").read_text() == "x"


def test_there_is_no_network(sandboxes):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as local:
        name = f"bottega-test-{os.getpid()}"
        local.bind("\0" + name)
        local.listen()
        port = listener.getsockname()[1]
        seen, _ = sandboxes.run("reach_network", arguments={"host": "127.0.0.1", "port": port, "abstract": name})
    assert seen.pop("local") == ""
    assert all(seen.values()), seen


def test_the_supervisor_cannot_be_signalled_read_or_limited(sandboxes):
    seen, ended = sandboxes.run("attack_processes")
    assert ended.code == 0 and ended.reason == "exited"
    for name in ("memory", "maps", "descriptors", "environ", "root", "prlimit"):
        assert seen[name], f"{name} of the supervisor was open"


def test_denied_calls_are_denied(sandboxes):
    column = 0 if platform.machine() == "x86_64" else 1
    tables = {**DENIED, **ABSENT, **SENDING, **ALARMS}
    calls = {name: numbers[column] for name, numbers in tables.items() if numbers[column] is not None}
    calls |= {"clone": (56, 220)[column], "personality": (135, 92)[column], "prctl": (157, 167)[column]}
    arguments = {"clone": [0x10000000 | 17], "personality": [0x0040000], "prctl": [31]}
    seen, ended = sandboxes.run("call_denied", arguments={"calls": calls, "arguments": arguments})
    assert ended.code == 0
    for name, number in seen.items():
        assert number == (errno.ENOSYS if name in {**ABSENT, **ALARMS} else errno.EPERM), (name, errno.errorcode.get(number))


def test_it_cannot_arrange_to_be_thawed(sandboxes):
    column = 0 if platform.machine() == "x86_64" else 1
    arguments = {"timer_create": (222, 107)[column], "clone": (56, 220)[column], "prctl": (157, 167)[column]}
    seen, _ = sandboxes.run("thaw_itself", arguments=arguments)
    assert seen["timer"] == errno.ENOSYS and seen["signal_number"]
    assert seen["exit_signals"] == [errno.EPERM] * 3
    assert seen["death_signal"] == seen["filter"] == seen["terminal"] == errno.EPERM
    assert "PermissionError" in seen["folder"] and seen["locks"] == ""


def test_the_groups_of_other_sandboxes_are_out_of_sight(sandboxes):
    seen, _ = sandboxes.run("list_folder", arguments={"folder": "/sys/fs/cgroup"})
    assert seen["found"] == []


def test_it_stays_in_its_group_and_readable_and_libraries_go_on(sandboxes):
    """A call that is ignored says that it worked."""
    assert set(IGNORED) == {"setpgid", "setsid"}
    seen, ended = sandboxes.run("leave_the_group")
    assert ended.code == 0, ended.output
    assert seen["groups"][0] == seen["groups"][1] and seen["sessions"][0] == seen["sessions"][1]
    assert seen["readable"] == 1 and seen["subprocess"] == "fine"


def test_only_whoever_may_trusted(server):
    for may in (True, False):
        reader, writer = os.pipe()
        sandbox = server.spawn("sandbox_entries:send_descriptors", fds=[writer], trusted=may)
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            error = json.loads(said.readline())["error"]
        sandbox.kill()
        assert bool(error) is not may


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_well_formed(machine):
    program = filter_program(machine)
    assert len(program) % 8 == 0 and len(program) // 8 < 4096
    length = len(program) // 8
    for index in range(length):
        code, when_true, when_false, _ = struct.unpack_from("=HBBI", program, 8 * index)
        if code & 7 == 5:
            assert index + 1 + max(when_true, when_false) < length


def test_an_unknown_architecture_has_no_filter():
    with pytest.raises(KeyError):
        filter_program("sparc")


def test_honest_work_goes_on(sandboxes):
    seen, ended = sandboxes.run("working_entries:compile_and_run", timeout=120)
    assert ended.code == 0, ended.output
    assert seen["product"] == 27_000_000.0 and 15 < seen["parallel"] < 15.1
    assert sandboxes.run("import_late")[0] == {"module": "colorsys"}


@pytest.mark.slow
def test_torch_compile_works_inside(sandboxes):
    seen, ended = sandboxes.run("working_entries:torch_compile", timeout=250)
    assert ended.code == 0 and seen["value"] == 3000.0
