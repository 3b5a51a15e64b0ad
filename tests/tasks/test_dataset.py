"""Tables of tasks: on disk, and on a hub that cannot be reached."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bottega.core.errors import TaskError, UsageError
from bottega.tasks import load_task, load_tasks

CODE = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.softmax({})\n"
CODE += "def get_inputs():\n    return [torch.randn(4, 4)]\ndef get_init_inputs():\n    return []\n"
ROWS = [
    {"code": CODE.format(level * 10 + number), "level": level, "name": f"{number}_Made_Up", "problem_id": number}
    for level, number in [(1, 1), (1, 23), (2, 1)]
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_json_lines(table: Path) -> None:
    loaded = load_tasks([table])
    assert [(task.level, task.name) for task in loaded.tasks] == [(1, "1_Made_Up"), (1, "23_Made_Up"), (2, "1_Made_Up")]
    assert loaded.tasks[1].tags == ("softmax", "dtype:float32", "level:1", "problem:23")
    assert [task.level for task in load_tasks([str(table)], levels=[2]).tasks] == [2]


def test_an_origin_is_a_reference(table: Path) -> None:
    task = load_tasks([table]).tasks[1]
    assert task.origin == f"{table}:level1/23"
    assert load_task(task.origin) == task
    assert len(load_tasks([f"{table}:level1"]).tasks) == 2


def test_bad_rows_do_not_stop_the_others(table: Path) -> None:
    with table.open("a") as lines:
        lines.write(
            '{"code": 3, "level": 1, "problem_id": 4}\nnot json\n[1]\n\n{"code": "x = (", "level": 2, "problem_id": 9}\n'
        )
    loaded = load_tasks([table])
    assert len(loaded.tasks) == 3
    messages = [problem.message for problem in loaded.problems]
    assert ["column named code" in messages[0], "not JSON" in messages[1], "record" in messages[2], "parse" in messages[3]] == [
        True
    ] * 4
    with pytest.raises(TaskError, match="column named code"):
        load_task(f"{table}:level1/4")


def test_rows_that_share_a_number_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text("".join(json.dumps({**ROWS[0], "code": CODE.format(dim)}) + "\n" for dim in range(3)))
    assert len(load_tasks([path]).tasks) == 3


@pytest.mark.parametrize(
    ("selector", "words"),
    [("level1/99", "holds no problem 99"), ("level7", "no problem"), ("first", "level1/23"), ("/4", "level1/23")],
)
def test_selectors_that_select_nothing(table: Path, selector: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_tasks([f"{table}:{selector}"])


def test_an_empty_and_a_binary_table(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UsageError, match="holds no problem"):
        load_tasks([tmp_path / "empty.jsonl"])
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UsageError, match="cannot be read as JSON lines"):
        load_tasks([tmp_path / "binary.jsonl"])


def test_the_hub_when_it_cannot_be_had(tmp_path: Path) -> None:
    """In a process of its own, because the hub's client reads its settings when it is imported."""
    program = "from bottega.tasks import load_tasks\nload_tasks(['kernelbench:level1'])"
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert "UsageError" in last
    assert ("cannot be fetched" if find_spec("datasets") else "pip install 'bottega[datasets]'") in last


@pytest.mark.parametrize("reference", ["kernelbench:level9", "kernelbench:23", "kernelbench:level1/x"])
def test_malformed_references_to_the_hub(reference: str) -> None:
    with pytest.raises(UsageError, match="level"):
        load_tasks([reference])


def test_parquet_needs_the_extra_or_works(tmp_path: Path) -> None:
    path = tmp_path / "data" / "level_1-00000-of-00001.parquet"
    path.parent.mkdir()
    if find_spec("pyarrow") is None:
        path.write_bytes(b"PAR1")
        with pytest.raises(UsageError, match="pip install 'bottega"):
            load_tasks([path])
        return
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"code": CODE, "name": "n", "problem_id": 5}]), path)
    assert [task.origin for task in load_tasks([tmp_path]).tasks] == [f"{path}:level1/5"]
    assert load_task(path).level == 1
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UsageError, match="cannot be read as a parquet table"):
        load_tasks([path])


def test_a_saved_folder(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    splits = {f"level_{level}": datasets.Dataset.from_list([row for row in ROWS if row["level"] == level]) for level in (1, 2)}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    assert [task.level for task in load_tasks([tmp_path / "saved"]).tasks] == [1, 1, 2]
    assert load_task(f"{tmp_path / 'saved'}:level1/23").name == "23_Made_Up"
