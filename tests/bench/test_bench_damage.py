"""What machines and people do to a run: kills at every write, full disks, edited lines, deleted kernels, forged records. Nothing counts twice."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import FakeJudge, forged, judged_by, run, task_folder, task_text
from episodes.decay import kernel

from bottega.bench import session
from bottega.bench import verify as verifying
from bottega.bench.leaderboard import disagreements, read_record, write_record
from bottega.bench.report import bench_page
from bottega.bench.run_directory import ATTEMPTS, BENCH, KERNELS, TASKS, begin, read_run
from bottega.bench.session import BenchFinished
from bottega.bench.verify import Verification, verify
from bottega.core.errors import BottegaError, UsageError
from bottega.episodes.delivery.page import html, markdown

THEIRS = {
    "1_Relu.py": kernel(2.0),
    "1_Relu.1.py": kernel("incorrect"),
    "2_Double.py": kernel(1.3),
    "2_Double.1.py": kernel(1.3),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    task_folder(tmp_path)
    (tmp_path / "theirs").mkdir()
    for name, text in THEIRS.items():
        (tmp_path / "theirs" / name).write_text(text)
    judged_by(monkeypatch, *(FakeJudge() for _ in range(64)))
    monkeypatch.setattr(verifying, "Shard", session.Shard)
    return tmp_path


def judged(place: Path, folder: str = "run", **options: Any) -> BenchFinished:
    return run(place / folder, place / "tasks", **{"candidates": str(place / "theirs"), **options})


def check(folder: Path) -> Verification:
    return asyncio.run(verify(folder, ["cpu"], share=1.0))


def killed_at(write: int, work: Callable[[], Any]) -> bool:
    """Whether a process that does the work is still there when it comes to its so many-th write to the disk, which kills it."""
    child = os.fork()
    if not child:
        left, fsync = [write], os.fsync

        def stop(file: int) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(file)

        os.fsync = stop
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.rotates
def test_killed_at_any_write_a_run_goes_on_and_nothing_counts_twice(place: Path) -> None:
    whole = judged(place, "whole").run
    expected = [(attempt.key, attempt.candidate) for attempt in whole.attempts]
    writes = 1
    while killed_at(writes, partial(judged, place, f"killed{writes}")):
        again = judged(place, f"killed{writes}")
        assert again.whole and [(attempt.key, attempt.candidate) for attempt in again.run.attempts] == expected, writes
        assert disagreements(again.run, read_record(again.run.folder)[1]) == []
        writes += 1
    assert writes > 12, "head, tasks, kernels, attempts and record are all written through"


def test_a_full_disk_ends_the_run_and_more_room_goes_on(place: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = []
    for room in (100, 1500, 2000, 9000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            with pytest.raises(BottegaError, match=r"cannot be written .*the same command") as caught:
                judged(place)
            told.append(Path(str(caught.value).partition(":")[0]).name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told[0] == BENCH and told[1] in (TASKS, ATTEMPTS) and told[-1] == "leaderboard.json"
    assert judged(place).whole and len(read_run(place / "run").attempts) == 4


def change(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda line: line.update(fields)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "edit, told",
    [
        (change(sample=-1), "sample"),
        (change(sample="0"), "sample"),
        (change(turn=10**9), "turn"),
        (change(task=["a"]), "task"),
        (change(candidate="../../elsewhere"), "candidate"),
        (change(seconds=None), "seconds"),
        (change(verdict="faster"), "verdict"),
        (lambda line: line["verdict"].update(outcome="splendid"), "outcome"),
        (lambda line: line["verdict"].update(speedup={"eager": {"point": "2", "low": 1, "high": 3}}), r"speedup\.eager\.point"),
        (lambda line: line["verdict"].update(coverage={"share": "all"}), "coverage"),
    ],
)
def test_a_line_that_cannot_be_is_named(place: Path, edit: Callable[[dict[str, Any]], Any], told: str) -> None:
    folder = judged(place).run.folder
    first, rest = (folder / ATTEMPTS).read_text().split("\n", 1)
    line = json.loads(first)
    edit(line)
    (folder / ATTEMPTS).write_text(json.dumps(line) + "\n" + rest)
    with pytest.raises(UsageError, match=rf"{ATTEMPTS}: line 1 is damaged .*{told}"):
        read_run(folder)


def test_numbers_and_nesting_that_no_run_has_are_refused(place: Path) -> None:
    folder = judged(place).run.folder
    head = (folder / BENCH).read_text()
    (folder / BENCH).write_text(head.replace('"samples": 2', '"samples": 2000000000'))
    with pytest.raises(UsageError, match="speaks of 2000000000 samples"):
        read_run(folder)
    (folder / BENCH).write_text(head.replace('"samples": 2', '"samples": "two"'))
    with pytest.raises(UsageError, match="samples is 'two'"):
        read_run(folder)
    (folder / BENCH).write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is damaged"):
        read_run(folder)
    (folder / BENCH).write_text(head)
    (folder / TASKS).rename(folder / "elsewhere")
    with pytest.raises(UsageError, match=f"{TASKS}: holds no task"):
        read_run(folder)
    (folder / "elsewhere").rename(folder / TASKS)
    with open(folder / ATTEMPTS, "a") as file:
        file.write('{"a":' * 100_000 + "\n")
    with pytest.raises(UsageError, match="line 5 is damaged"):
        read_run(folder)


def test_of_two_that_begin_the_same_run_one_does(place: Path) -> None:
    folder = judged(place).run.folder
    before = (folder / BENCH).read_bytes()
    for left in folder.iterdir():
        if left.name != BENCH:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    (folder / BENCH).rename(folder / f".{BENCH}.1")  # as a kill leaves it
    begin(folder, json.loads(before))
    with pytest.raises(UsageError, match="is not empty"):
        begin(folder, json.loads(before))


def test_deleted_kernels_are_put_back_and_other_words_for_the_same_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = judged(place).run.folder
    shutil.rmtree(folder / KERNELS)
    found = check(folder)
    assert found.refuted and "a kernel was changed or is missing" in found.reasons[0]
    monkeypatch.chdir(place)
    again = run(folder, Path("tasks"), candidates="theirs", limit=3)
    assert again.whole and len(again.run.attempts) == 4
    assert check(folder).conclusion == "holds"
    (place / "theirs" / "1_Relu.7.py").write_text(kernel(3.0))
    with pytest.raises(UsageError, match="samples numbered 0 1, and kernels of samples numbered 0 1 7"):
        judged(place)


def bare(folder: Path) -> None:
    line = json.loads((folder / ATTEMPTS).read_text().splitlines()[0])
    forged(ATTEMPTS, f'"candidate":"{line["candidate"]}"', '"candidate":""')(folder)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "edit, told",
    [
        (bare, "faster without a kernel"),
        (lambda folder: next((folder / KERNELS).iterdir()).unlink(), "a kernel was changed or is missing"),
        (forged(TASKS, "torch.relu(x)", "x"), "not the one that its id names"),
        (forged(ATTEMPTS, '"task_id":""', '"task_id":"another"'), "the verdict on another kernel or task"),
        (forged(ATTEMPTS, '"outcome":"incorrect"', '"outcome":"same"'), "it was same and is now incorrect"),
    ],
)
def test_forged_with_hashes_and_figures_that_agree(place: Path, edit: Callable[[Path], Any], told: str) -> None:
    folder = judged(place).run.folder
    edit(folder)
    write_record(read_run(folder))
    found = check(folder)
    assert found.refuted and any(told in reason for reason in found.reasons), found.reasons


@pytest.mark.rotates
def test_ends_without_a_number_are_open_and_can_be_drawn(place: Path) -> None:
    folder = judged(place).run.folder
    text = (folder / ATTEMPTS).read_text()
    line = json.loads(text.splitlines()[0])
    line["verdict"]["speedup"]["eager"] |= {"low": None, "high": None}
    (folder / ATTEMPTS).write_text("\n".join([json.dumps(line), *text.splitlines()[1:]]) + "\n")
    write_record(read_run(folder))
    assert check(folder).conclusion == "holds"
    assert "1_Relu" in html(bench_page(folder)) and "1_Relu" in markdown(bench_page(folder))


def test_a_record_without_kernels_says_that_nothing_was_compared(place: Path) -> None:
    (place / "broken").mkdir()
    (place / "broken" / "1_Relu.py").write_text(task_text("x") + "(")
    (place / "theirs" / "1_Relu.1.py").unlink()
    found = run(place / "run", place / "broken", candidates=str(place / "theirs"))
    assert found.whole and check(found.run.folder).conclusion == "nothing could be compared"


@pytest.mark.rotates
def test_a_task_whose_name_is_no_utf8_is_judged_and_drawn(place: Path) -> None:
    name = os.fsdecode(b"3_\xff.py")
    (place / "tasks" / "level1" / name).write_text(task_text("x + 3"))
    (place / "theirs" / name).write_text(kernel(1.4))
    found = judged(place)
    assert found.whole and len(found.run.attempts) == 5 and check(found.run.folder).conclusion == "holds"
    assert len(judged(place).run.attempts) == 5 and "3_" in html(bench_page(found.run.folder))
