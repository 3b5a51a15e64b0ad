"""The dashboard cannot harm a run: it changes no file, takes no lock, and says of a run what the system says of it."""

from __future__ import annotations

import re
import threading
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the dashboard needs the extra `service`")

from made_runs import bench, library, lineage, search, training
from starlette.testclient import TestClient

from bottega.core.event import Measured
from bottega.episodes.journal import EpisodeJournal
from bottega.service.dashboard.app import dashboard_app
from bottega.service.dashboard.discover import RunFinder
from bottega.service.dashboard.state import locked_inodes, written_now


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    search(folder / "search")
    bench(folder / "bench")
    training(folder / "rl")
    library(folder / "rl" / "library")
    lineage(folder / "lineage")
    return folder


def everything(client: Any, most: int = 150) -> dict[str, str]:
    """Every page that can be reached by links, by its address."""
    found: dict[str, str] = {}
    waiting = ["/"]
    while waiting and len(found) < most:
        address = waiting.pop(0)
        if address in found:
            continue
        answer = client.get(address)
        assert answer.status_code == 200, address
        found[address] = answer.text
        waiting += [unescape(each) for each in re.findall(r'href="(/[^"#]*)"', answer.text)]
    return found


def files_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.stat()
        found[str(path)] = state.st_size, state.st_mtime_ns, path.read_bytes() if path.is_file() else b""
    return found


def test_every_page_leaves_the_runs_as_they_are(runs: Path) -> None:
    before = files_of(runs)
    seen = everything(TestClient(dashboard_app([runs])))
    assert files_of(runs) == before
    kinds = {kind for address in seen for kind in re.findall(r"view=(\w+)", address)}
    assert kinds >= {"node", "events", "event", "task", "attempt", "step", "episode", "turn", "library", "card"}


def test_a_writer_never_finds_its_lock_taken(runs: Path) -> None:
    client, ended = TestClient(dashboard_app([runs])), threading.Event()

    def look() -> None:
        while not ended.is_set():
            client.get("/")
            client.get("/run/runs/rl")

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for step in range(5, 45):
            with EpisodeJournal(runs / "rl") as journal:  # would raise
                journal.write(Measured(f"train/{step}", step, {"reward": 1.0}))
    finally:
        ended.set()
        reader.join()


def test_a_run_that_is_being_written_is_running(runs: Path) -> None:
    if locked_inodes() is None:
        pytest.skip("this system has no list of locks")
    client, log = TestClient(dashboard_app([runs])), runs / "rl" / "events.jsonl"
    with EpisodeJournal(runs / "rl"):
        assert written_now(log)
        assert ">running<" in client.get("/run/runs/rl").text
    assert not written_now(log)
    assert ">stopped<" in client.get("/run/runs/rl").text


def test_runs_are_found_by_their_files_and_links_are_not_followed(runs: Path, tmp_path: Path) -> None:
    elsewhere = search(tmp_path / "elsewhere" / "hidden")
    (runs / "link").symlink_to(elsewhere)
    library(runs / "deep" / "er" / "cards")
    (runs / "half").mkdir()
    (runs / "half" / "bench.json").write_text("{")
    found = {name: run.kind for name, run in RunFinder([runs]).runs().items()}
    assert found == {
        "runs/search": "log",
        "runs/bench": "bench",
        "runs/rl": "rl",
        "runs/lineage": "lineage",
        "runs/deep/er/cards": "library",
        "runs/half": "bench",
    }


def test_two_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [search(tmp_path / place / "run") for place in ("a", "b")]
    assert [(name, run.folder) for name, run in RunFinder(folders).runs().items()] == [
        ("run", folders[0]),
        ("run~2", folders[1]),
    ]
