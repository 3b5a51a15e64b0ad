"""Kernels that others wrote find their tasks in both layouts, and what fits none is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.small_bench import task_folder, task_text

from bottega.bench.candidates import LARGEST, CandidateSet, read_candidates
from bottega.bench.task_set import TaskSet, load_task_set
from bottega.core.errors import UsageError


@pytest.fixture
def tasks(tmp_path: Path) -> TaskSet:
    return load_task_set([str(task_folder(tmp_path))], "cpu")


def read(tmp_path: Path, tasks: TaskSet, files: dict[str, str]) -> CandidateSet:
    folder = tmp_path / "theirs"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_candidates(folder, tasks.rows, tasks.tasks)


def named(tasks: TaskSet, found: CandidateSet) -> dict[str, dict[int, str]]:
    names = {row.id: row.name for row in tasks.rows}
    return {names[task]: {n: kernel.source for n, kernel in samples.items()} for task, samples in found.kernels.items()}


def test_kernelbench_run_folder(tmp_path: Path, tasks: TaskSet) -> None:
    files = {
        "level_1_problem_1_sample_0_kernel.py": "relu 0",
        "level_1_problem_1_sample_3_kernel.py": "relu 3",
        "level_2_problem_1_sample_3_kernel.py": "negate 3",
        "level_2_problem_9_sample_0_kernel.py": "of no task",
    }
    found = read(tmp_path, tasks, files)
    assert named(tasks, found) == {"1_Relu": {0: "relu 0", 1: "relu 3"}, "1_Negate": {1: "negate 3"}}
    assert found.numbers == (0, 3), "samples are counted without gaps, and their own numbers are kept"
    assert len(found.unmatched) == 1 and "problem_9" in found.unmatched[0] and "no task" in found.unmatched[0]


def test_plain_layouts(tmp_path: Path, tasks: TaskSet) -> None:
    files = {
        "1_Relu.py": "alone",
        "2_Double.0.py": "numbered",
        "2_Double.1.py": "numbered",
        "level2/1_Negate/0.py": "below its name",
        "README.py": "nothing of this",
        "__pycache__/1_Relu.py": "hidden",
    }
    found = read(tmp_path, tasks, files)
    assert named(tasks, found) == {
        "1_Relu": {0: "alone"},
        "2_Double": {0: "numbered", 1: "numbered"},
        "1_Negate": {0: "below its name"},
    }
    assert found.repeated == 1, "the same text is a sample each, and is judged once"
    assert [Path(line.partition(":")[0]).name for line in found.unmatched] == ["README.py"]


def test_a_name_that_two_levels_share_needs_its_level(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    (folder / "level2" / "1_Relu.py").write_text(task_text("torch.relu(x) + 1"))
    tasks = load_task_set([str(folder)], "cpu")
    found = read(tmp_path, tasks, {"1_Relu.py": "whose", "level2/1_Relu.py": "the second's"})
    assert len(found.unmatched) == 1 and "fits 2 tasks" in found.unmatched[0]
    (kernels,) = found.kernels.values()
    assert kernels[0].source == "the second's"


def test_two_files_for_one_sample_are_an_error(tmp_path: Path, tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match=r"both sample 0 of the same task"):
        read(tmp_path, tasks, {"1_Relu.py": "one", "1_Relu.0.py": "another"})


def test_what_is_no_file_or_too_large_is_told_and_costs_no_other(tmp_path: Path, tasks: TaskSet) -> None:
    theirs, elsewhere = tmp_path / "theirs", tmp_path / "elsewhere.py"
    (theirs / "1_Negate.py").mkdir(parents=True)
    (theirs / "1_Relu.py").write_text("pass")
    elsewhere.write_text("pass")
    (theirs / "2_Double.py").symlink_to(elsewhere)
    (theirs / "2_Double.1.py").symlink_to("nowhere")
    os.mkfifo(theirs / "2_Double.2.py")
    with open(theirs / "1_Relu.1.py", "wb") as file:
        file.truncate(LARGEST + 1)
    found = read_candidates(theirs, tasks.rows, tasks.tasks)
    assert sum(map(len, found.kernels.values())) == 2 and found.numbers == (0,)
    assert [line.rpartition("/")[2].partition(": ")[0] for line in found.unmatched] == [
        "1_Relu.1.py",
        "2_Double.1.py",
        "2_Double.2.py",
    ]
    assert "larger than 8 MiB" in found.unmatched[0]
    assert len(found.outside) == 1 and str(elsewhere) in found.outside[0]


def test_nothing_to_judge_is_said(tmp_path: Path, tasks: TaskSet) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        read_candidates(tmp_path / "nowhere", tasks.rows, tasks.tasks)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no kernels"):
        read_candidates(tmp_path / "empty", tasks.rows, tasks.tasks)
    with pytest.raises(UsageError, match=r"holds no kernel for a task of this run, whose kernels are named such as 1_Relu\.py"):
        read(tmp_path, tasks, {"other.py": "x"})


def test_task_sets_are_chosen_and_keep_what_cannot_be_used(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    (folder / "level2" / "2_Broken.py").write_text("this is no Python (")
    (folder / "level2" / "3_Again.py").write_text((folder / "level1" / "1_Relu.py").read_text() + "# the same task\n")
    tasks = load_task_set([str(folder)], "cpu")
    assert [row.name for row in tasks.rows] == ["1_Relu", "2_Double", "1_Negate", "2_Broken"]
    broken = tasks.rows[-1]
    assert broken.fitness.startswith("cannot be used") and broken.id not in tasks.tasks and broken.level == 2
    assert len(tasks.repeated) == 1 and "3_Again" in tasks.repeated[0]
    assert [row.name for row in load_task_set([str(folder)], "cpu", levels=[1]).rows] == ["1_Relu", "2_Double"]
    assert [row.name for row in load_task_set([str(folder)], "cpu", only="*e*").rows] == [
        "1_Relu",
        "2_Double",
        "1_Negate",
        "2_Broken",
    ]
    assert [row.name for row in load_task_set([str(folder)], "cpu", only="2_*", limit=1).rows] == ["2_Double"]
    assert [row.name for row in load_task_set([str(folder)], "cpu", limit=2).rows] == ["1_Relu", "1_Negate"], (
        "at even distances"
    )
    with pytest.raises(UsageError, match="no task that fits 'x'"):
        load_task_set([str(folder)], "cpu", only="x")
    with pytest.raises(UsageError, match="limit of 0"):
        load_task_set([str(folder)], "cpu", limit=0)
