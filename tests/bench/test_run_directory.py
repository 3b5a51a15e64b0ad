"""The run directory: what is kept is kept once, a cut line is dropped and said, and any other damage is named with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.bench.run_directory import ATTEMPTS, BENCH, TASKS, Recorder, begin, read_kernel, read_run
from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome, Speedup, Verdict, Violation

HEAD = {"settings": {"turns": 1, "samples": 1}, "fingerprint": {"judge": "1"}, "hashes": {}}
VERDICT = Verdict(
    Outcome.FASTER, True, {"eager": Speedup(1.5, 1.4, 1.6)}, violations=(Violation("none", "at all"),), notes=("timed",)
)
KERNEL = "class ModelNew:\n    pass\n"


def attempt(sample: int = 0, turn: int = 0, task: str = "a") -> BenchAttempt:
    return BenchAttempt(task, sample, turn, VERDICT, Candidate(KERNEL, "cpp").id, "cpp", 10, 20, 0.5, 1.25, ("fuse",))


def task(id: str = "a", **more: str) -> BenchTask:
    return BenchTask(id, f"task {id}", 1, "activation", "import torch", **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    begin(tmp_path / "run", HEAD)
    with Recorder(tmp_path / "run") as recorder:
        recorder.note(task("a", trouble="not yet"))
        recorder.note(task("b"))
        recorder.note(task("a", fitness="constant"))
        assert recorder.add(attempt(0), KERNEL) and recorder.add(attempt(1), KERNEL)
        assert not recorder.add(attempt(1), KERNEL), "the same attempt is kept once"
    return tmp_path / "run"


def test_what_was_kept_is_read_back(folder: Path) -> None:
    run = read_run(folder)
    assert run.attempts == (attempt(0), attempt(1))
    assert run.tasks == (task("a", fitness="constant"), task("b")), "the last line of a task counts"
    assert run.settings == HEAD["settings"] and run.fingerprint == HEAD["fingerprint"]
    assert read_kernel(folder, Candidate(KERNEL, "cpp").id) == KERNEL


def test_an_answer_without_a_kernel_survives_json() -> None:
    empty = BenchAttempt("a", 0, 0, None, "", "cpp", 1, 2, 0.0, 0.0, (), "it talks about the weather")
    assert BenchAttempt.from_json(json.loads(json.dumps(empty.to_json()))) == empty


def test_a_cut_last_line_is_left_out_said_and_mended(folder: Path) -> None:
    with open(folder / ATTEMPTS, "ab") as file:
        file.write(b'{"task":"a","sam')
    said: list[str] = []
    assert len(read_run(folder, said.append).attempts) == 2
    assert len(said) == 1 and ATTEMPTS in said[0] and "cut" in said[0]
    with Recorder(folder) as recorder:
        recorder.add(attempt(2), KERNEL)
    said.clear()
    assert len(read_run(folder, said.append).attempts) == 3 and said == []


@pytest.mark.parametrize("damage", [b"{nonsense}\n", b"[1, 2]\n", b'{"task":"a"}\n', b"\xff\xfe\n"])
def test_other_damage_is_named_with_file_and_line(folder: Path, damage: bytes) -> None:
    first, rest = (folder / ATTEMPTS).read_bytes().split(b"\n", 1)
    (folder / ATTEMPTS).write_bytes(first + b"\n" + damage + rest)
    with pytest.raises(UsageError, match=rf"{ATTEMPTS}: line 2 is damaged"):
        read_run(folder)


def test_an_attempt_that_is_there_twice_or_at_no_task_is_refused(folder: Path) -> None:
    lines = (folder / ATTEMPTS).read_bytes()
    (folder / ATTEMPTS).write_bytes(lines + lines.split(b"\n")[0] + b"\n")
    with pytest.raises(UsageError, match="line 3 holds the same attempt as line 1"):
        read_run(folder)
    stranger = json.dumps(attempt(task="z").to_json()).encode() + b"\n"
    (folder / ATTEMPTS).write_bytes(lines + stranger)
    with pytest.raises(UsageError, match="line 3 is an attempt at z"):
        read_run(folder)


def test_damage_of_tasks_and_head_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no benchmark run is there"):
        read_run(tmp_path / "nowhere")
    (folder / TASKS).write_text("{}\n")
    with pytest.raises(UsageError, match=rf"{TASKS}: line 1"):
        read_run(folder)
    head = (folder / BENCH).read_text()
    (folder / BENCH).write_text(head.replace('"schema": 1', '"schema": 99'))
    with pytest.raises(UsageError, match="newer Bottega"):
        read_run(folder)
    (folder / BENCH).write_text(head[:20])
    with pytest.raises(UsageError, match="is damaged"):
        read_run(folder)


def test_one_process_writes_and_a_folder_of_something_else_is_left_alone(folder: Path, tmp_path: Path) -> None:
    with Recorder(folder), pytest.raises(UsageError, match="another process is writing"):
        Recorder(folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        begin(tmp_path / "mine", HEAD)


def test_a_kernel_that_was_changed_is_noticed(folder: Path) -> None:
    path = folder / "kernels" / f"{Candidate(KERNEL, 'cpp').id}.py"
    path.write_text("class ModelNew: ...")
    with pytest.raises(UsageError, match="its text was changed"):
        read_kernel(folder, Candidate(KERNEL, "cpp").id)
    with pytest.raises(UsageError, match="cannot be read"):
        read_kernel(folder, "0" * 16)
