"""What a sandbox may use up, and that the machine does not notice when it tries to use more."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from bottega.sandbox.control import ProcessControl
from bottega.sandbox.fork_server import Limits

MIB = 1 << 20
SMALL = Limits(memory_bytes=512 * MIB, scratch_bytes=64 * MIB, processes=64, file_bytes=128 * MIB, open_files=128)


@pytest.mark.parametrize(
    ("entry", "arguments"),
    [
        ("hog_memory", {}),
        ("hog_with_children", {"children": 20, "each": 50 * MIB}),
        ("hog_memory_files", {}),
        ("hog_shared_mapping", {}),
    ],
)
def test_a_hog_is_ended_at_its_limit(sandboxes, entry, arguments):
    sandbox, said = sandboxes.start(entry, arguments=arguments, limits=SMALL)
    with said:
        ended = sandbox.wait(60)
        sandbox.kill()
    assert ended is not None and ended.reason == "memory", ended
    assert "its limit is 512 MiB" in ended.output


@pytest.mark.rotates
@pytest.mark.parametrize(
    "entry", ["hog_pipes", "hog_socket_pairs", "hog_waiting_connections", "hog_page_tables", "hog_mappings"]
)
def test_memory_that_no_process_maps_counts(sandboxes, server, entry):
    if entry == "hog_waiting_connections" and not server.report.parts["network"]:
        pytest.skip("sockets that no process holds are seen in a network name space of one's own")
    sandbox, said = sandboxes.start(entry, limits=Limits(memory_bytes=256 * MIB, processes=64, open_files=4096))
    with said:
        ended = sandbox.wait(60)
        sandbox.kill()
    assert ended is not None and ended.reason == "memory", ended
    assert "its limit is 256 MiB" in ended.output


def test_descriptors_of_the_whole_tree_are_bounded(sandboxes):
    sandbox, said = sandboxes.start("hog_descriptors", limits=Limits(processes=64, open_files=4096))
    with said:
        ended = sandbox.wait(60)
        sandbox.kill()
    assert ended is not None and ended.reason == "memory" and "more than 20000 descriptors" in ended.output


@pytest.mark.rotates
def test_shared_pages_of_forked_processes_count_once(sandboxes):
    """Forty children of a torch process count some gigabytes of resident memory, and hold next to nothing."""
    seen, ended = sandboxes.run("fork_bomb", arguments={"linger": 1.0}, limits=Limits(memory_bytes=1024 * MIB, processes=40))
    assert ended.reason == "exited", ended
    assert 30 < seen["made"] < 40


@pytest.mark.rotates
def test_memory_lent_by_the_judge_does_not_count(sandboxes):
    size = 700 * MIB
    lent = os.memfd_create("lent")
    try:
        os.ftruncate(lent, size)
        for _ in range(700):
            os.write(lent, b"\1" * MIB)
        seen, ended = sandboxes.run("use_lent_memory", fds=[lent], arguments={"bytes": size}, limits=SMALL)
    finally:
        os.close(lent)
    assert ended.reason == "exited" and seen["total"] == size // 4096


def test_a_fork_bomb_stays_in_its_sandbox(sandboxes):
    sandbox, said = sandboxes.start("exponential_bomb", limits=SMALL)
    with said:
        assert sandbox.wait(1.0) is None
        sandbox.kill()
    assert sandbox.wait(0).reason == "killed"
    assert sandboxes.run("describe")[1].code == 0


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_scratch_is_bounded(sandboxes, server, folder):
    if not server.report.parts["filesystem"]:
        pytest.skip("no private file system on this machine")
    seen, ended = sandboxes.run("fill", arguments={"folder": folder}, limits=SMALL)
    assert ended.code == 0 and "No space left" in seen["error"]
    assert 60 * MIB < seen["written"] <= 64 * MIB


def test_files_and_descriptors_are_bounded(sandboxes):
    seen, _ = sandboxes.run("large_file", arguments={"bytes": 129 * MIB}, limits=SMALL)
    assert "File too large" in seen["error"]
    seen, _ = sandboxes.run("open_many", limits=SMALL)
    assert "Too many open files" in seen["error"] and seen["count"] < 128


def test_what_a_sandbox_holds_is_told(sandboxes):
    held = {}
    for size in (0, 200 * MIB):
        sandbox, said = sandboxes.start("hold_memory", arguments={"bytes": size})
        with said, closing(ProcessControl(sandbox.control)) as control:
            said.readline()
            held[size] = control.held_memory()
            sandbox.kill()
    assert 199 * MIB < held[200 * MIB] - held[0] < 230 * MIB
