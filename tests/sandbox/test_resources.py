"""What a cell may use up, and that the machine does not notice when it tries to use more."""

from __future__ import annotations

import os

import pytest

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
def test_a_hog_is_ended_at_its_limit(cells, entry, arguments):
    cell, said = cells.start(entry, arguments=arguments, limits=SMALL)
    with said:
        ended = cell.wait(60)
        cell.kill()
    assert ended is not None and ended.reason == "memory", ended
    assert "its limit is 512 MiB" in ended.output


@pytest.mark.parametrize(
    "entry", ["hog_pipes", "hog_socket_pairs", "hog_waiting_connections", "hog_page_tables", "hog_mappings"]
)
def test_memory_that_no_process_maps_counts(cells, server, entry):
    if entry == "hog_waiting_connections" and not server.sandbox.parts["network"]:
        pytest.skip("sockets that no process holds are seen in a network name space of one's own")
    cell, said = cells.start(entry, limits=Limits(memory_bytes=256 * MIB, processes=64, open_files=4096))
    with said:
        ended = cell.wait(60)
        cell.kill()
    assert ended is not None and ended.reason == "memory", ended
    assert "its limit is 256 MiB" in ended.output


def test_descriptors_of_the_whole_tree_are_bounded(cells):
    cell, said = cells.start("hog_descriptors", limits=Limits(processes=64, open_files=4096))
    with said:
        ended = cell.wait(60)
        cell.kill()
    assert ended is not None and ended.reason == "memory" and "more than 20000 descriptors" in ended.output


def test_shared_pages_of_forked_processes_count_once(cells):
    """Forty children of a torch process count some gigabytes of resident memory, and hold next to nothing."""
    seen, ended = cells.run("fork_bomb", arguments={"linger": 1.0}, limits=Limits(memory_bytes=1024 * MIB, processes=40))
    assert ended.reason == "exited", ended
    assert 30 < seen["made"] < 40


def test_memory_lent_by_the_judge_does_not_count(cells):
    size = 700 * MIB
    lent = os.memfd_create("lent")
    try:
        os.ftruncate(lent, size)
        for _ in range(700):
            os.write(lent, b"\1" * MIB)
        seen, ended = cells.run("use_lent_memory", fds=[lent], arguments={"bytes": size}, limits=SMALL)
    finally:
        os.close(lent)
    assert ended.reason == "exited" and seen["total"] == size // 4096


def test_a_fork_bomb_stays_in_its_cell(cells):
    cell, said = cells.start("exponential_bomb", limits=SMALL)
    with said:
        assert cell.wait(1.0) is None
        cell.kill()
    assert cell.wait(0).reason == "killed"
    assert cells.run("describe")[1].code == 0


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_scratch_is_bounded(cells, server, folder):
    if not server.sandbox.parts["filesystem"]:
        pytest.skip("no private file system on this machine")
    seen, ended = cells.run("fill", arguments={"folder": folder}, limits=SMALL)
    assert ended.code == 0 and "No space left" in seen["error"]
    assert 60 * MIB < seen["written"] <= 64 * MIB


def test_files_and_descriptors_are_bounded(cells):
    seen, _ = cells.run("large_file", arguments={"bytes": 129 * MIB}, limits=SMALL)
    assert "File too large" in seen["error"]
    seen, _ = cells.run("open_many", limits=SMALL)
    assert "Too many open files" in seen["error"] and seen["count"] < 128
