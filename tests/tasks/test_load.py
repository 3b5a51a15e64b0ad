"""References to files and folders: what they come to, and what is said when they come to nothing."""

import os
from pathlib import Path

import pytest
from module_task import module_task

from bottega.core.errors import TaskError, UsageError
from bottega.tasks import load_task, load_tasks
from bottega.tasks.module import Wanted, open_module

TASK = module_task("torch.cumsum(x, dim={dim}) * 2", "torch.randn(8, 9, 10)")


def write(path: Path, dim: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TASK.format(dim=dim), encoding="utf-8")
    return path


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """A small folder in KernelBench's layout, with tasks of our own."""
    for level, number, name in [(1, 10, "Tenth"), (1, 2, "Second"), (1, 1, "First"), (2, 7, "Seventh"), (10, 1, "Late")]:
        write(tmp_path / f"level{level}" / f"{number}_{name}.py", dim=number + 100 * level)
    (tmp_path / "level1" / "__init__.py").touch()
    (tmp_path / "README.md").write_text("not a task")
    return tmp_path


def test_one_file(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py")
    task = load_task(path)
    assert (task.name, task.origin, task.level) == ("mine", str(path), None)
    assert task.tags == ("scan", "elementwise", "dtype:float32")
    assert load_task(str(path)) == task


def test_a_module_that_is_built_of_nothing_needs_no_init_inputs(tmp_path: Path) -> None:
    text = TASK.format(dim=0).partition("def get_init_inputs")[0]
    (tmp_path / "bare.py").write_text(text, encoding="utf-8")
    task = load_task(tmp_path / "bare.py")
    assert task.source.startswith(text.rstrip()) and "def get_init_inputs():\n    return []" in task.source
    assert task.id == open_module(str(tmp_path / "bare.py"), Wanted()).task.id  # as `optimize` takes it
    (tmp_path / "built.py").write_text(text.replace("def __init__(self)", "def __init__(self, width)"))
    with pytest.raises(TaskError, match="defines no get_init_inputs"):
        load_task(tmp_path / "built.py")


def test_a_file_of_a_level_folder_knows_its_level(benchmark: Path) -> None:
    task = load_task(benchmark / "level2" / "7_Seventh.py")
    assert task.level == 2
    assert {"level:2", "problem:7"} <= set(task.tags)


def test_relative_paths_know_their_level_too(benchmark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(benchmark / "level2")
    assert load_task("7_Seventh.py").level == 2
    assert [task.level for task in load_tasks(["."]).tasks] == [2]


def test_benchmark_layout_in_counting_order(benchmark: Path) -> None:
    loaded = load_tasks([benchmark])
    assert [task.name for task in loaded.tasks] == ["1_First", "2_Second", "10_Tenth", "7_Seventh", "1_Late"]
    assert [task.level for task in loaded.tasks] == [1, 1, 1, 2, 10]
    assert not loaded.problems
    assert [task.name for task in load_tasks([benchmark / "level1"]).tasks] == ["1_First", "2_Second", "10_Tenth"]


def test_a_checkout_with_the_layout_one_folder_down(benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout = tmp_path_factory.mktemp("checkout")
    benchmark.rename(checkout / "KernelBench")
    write(checkout / "setup.py")
    assert len(load_tasks([checkout]).tasks) == 5


def test_levels_filter(benchmark: Path) -> None:
    assert [task.level for task in load_tasks([benchmark], levels={2}).tasks] == [2]
    assert load_tasks([benchmark], levels={3}).tasks == ()
    assert load_tasks([write(benchmark / "loose" / "a.py")], levels={1}).tasks == ()


def test_any_folder_of_files_and_each_task_once(tmp_path: Path) -> None:
    write(tmp_path / "b.py", dim=1)
    write(tmp_path / "a.py", dim=2)
    write(tmp_path / "_private.py", dim=3)
    loaded = load_tasks([tmp_path, tmp_path / "a.py", str(tmp_path / "b.py")])
    assert [task.name for task in loaded.tasks] == ["a", "b"]


def test_bad_files_do_not_stop_the_others(benchmark: Path) -> None:
    level = benchmark / "level1"
    (level / "3_Broken.py").write_text("def f(:\n")
    (level / "4_Binary.py").write_bytes(b"\x7fELF\0\0\1\2")
    (level / "5_Latin.py").write_bytes("# Modèle\n".encode("latin-1"))
    (level / "6_Lacking.py").write_text("class Model: ...\n")
    (level / "8_Empty.py").write_text("")
    (level / "9_Dangling.py").symlink_to(level / "nowhere.py")
    (level / "11_Deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (level / "12_Large.py").write_text("# " + "x" * (3 << 20))
    loaded = load_tasks([benchmark])
    assert len(loaded.tasks) == 5
    reasons = {Path(problem.origin).stem: problem.message for problem in loaded.problems}
    assert list(reasons) == ["3_Broken", "4_Binary", "5_Latin", "6_Lacking", "8_Empty", "9_Dangling", "11_Deep", "12_Large"]
    expected = [
        "does not parse",
        "binary",
        "UTF-8",
        "defines no get_inputs",
        "empty",
        "regular file",
        "not parse",
        "larger than",
    ]
    for words, (name, message) in zip(expected, reasons.items(), strict=True):
        assert words in message and name in message and "\n" not in message
    assert {problem.level for problem in loaded.problems} == {1}
    assert load_tasks([benchmark], levels={2}).problems == ()


def test_one_bad_file_raises(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("import torch\nclass Model(:\n")
    with pytest.raises(TaskError, match=r"bad\.py: line 2: the task does not parse"):
        load_task(path)
    with pytest.raises(TaskError, match="regular file"):
        load_task(os.devnull)


@pytest.mark.parametrize(
    "reference", ["", " ", "nowhere.py", "a\0b", "x" * 5000, "nowhere.jsonl:level1", "http://example.org/x.py"]
)
def test_references_to_nothing(reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        load_task(reference)
    assert "\n" not in str(caught.value)


def test_a_folder_without_tasks(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(UsageError, match="holds no task files"):
        load_tasks([tmp_path])
    (tmp_path / "level1").mkdir()
    with pytest.raises(UsageError, match="holds no task files"):
        load_tasks([tmp_path])


def test_a_folder_named_like_the_suite_is_reached_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "builtin" / "own.py")
    monkeypatch.chdir(tmp_path)
    assert [task.name for task in load_tasks([Path("builtin")]).tasks] == ["own"]
    assert len(load_tasks(["builtin"]).tasks) > 1


def test_loading_never_runs_the_task(tmp_path: Path) -> None:
    path = write(tmp_path / "trap.py")
    witness = tmp_path / "witness"
    path.write_text(f"open({str(witness)!r}, 'w').close()\nraise SystemExit(3)\n" + path.read_text())
    assert load_task(path).name == "trap"
    assert not witness.exists()


def test_marks_and_line_ends_of_other_editors(tmp_path: Path) -> None:
    plain, windows = write(tmp_path / "a.py"), tmp_path / "b.py"
    windows.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    assert load_task(windows).id == load_task(plain).id
