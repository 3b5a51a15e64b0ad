"""`bottega tasks synth` as a user meets it, with the real judge behind it."""

import json
from pathlib import Path

import pytest
from module_task import module_task
from typer.testing import CliRunner

from bottega.app.tasks_command import app
from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task
from bottega.data.task_examiner import JudgeExaminer
from bottega.judge.judge import Judge
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import synthesise

CONSTANT = module_task("torch.clamp(x, 5.0, 6.0)", "torch.rand(512, 512)")


def synth(*arguments: str) -> dict:
    result = CliRunner().invoke(app, ["synth", "--json", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_unmeasured_tasks_for_a_gpu_on_a_machine_without_one(tmp_path: Path) -> None:
    told = synth("filter=false", "--device", "cuda", "--count", "12", "--out", str(tmp_path / "out"))
    assert told["accepted"] == 12
    assert told["plan"]["filtered"] is False
    loaded = load_tasks([tmp_path / "out"])
    assert len(loaded.tasks) == 12 and not loaded.problems


@pytest.mark.rotates
def test_staying_away_from_a_benchmark(tmp_path: Path) -> None:
    synth("filter=false", "--count", "8", "--seed", "3", "--out", str(tmp_path / "held-out"))
    told = synth(
        "filter=false",
        "--count",
        "8",
        "--seed",
        "3",
        f"decontaminate={tmp_path / 'held-out'}",
        "--out",
        str(tmp_path / "out"),
    )
    assert told["dropped"]["too_similar"] >= 8
    held_out, made = ({task.id for task in load_tasks([tmp_path / name]).tasks} for name in ("held-out", "out"))
    assert not held_out & made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--levels", "one"], "levels = 'one': Input should be a valid integer"),
        (["shard=half"], "write 2/8"),
        (["--families", "wood"], "unknown family wood"),
        (["format=csv"], "'jsonl' or 'parquet'"),
        (["decontaminate=/nowhere/at/all"], "no such file"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        synth("filter=false", "--count", "2", "--out", str(tmp_path), *arguments)


@pytest.mark.slow
def test_the_judge_as_examiner(judge: Judge) -> None:
    examiner = JudgeExaminer(judge, compiled=False)
    finding = examiner.examine(synthesise(1, 4, "cpu", levels=(1,), families=("activations",)).task)
    assert finding.fit and not finding.problems
    assert finding.eager_ms is not None and finding.eager_ms > 0
    finding = examiner.examine(Task(CONSTANT, "constant"))
    assert not finding.fit
    assert finding.problems[0][0] == "constant_output"
    with pytest.raises(TaskError):
        examiner.examine(Task(CONSTANT.replace("torch.clamp", "torch.no_such_operator"), "unknown"))


@pytest.mark.slow
def test_a_filtered_run(tmp_path: Path) -> None:
    told = synth("--count", "6", "--seed", "1", "workers=2", "longest_ms=2000", "--out", str(tmp_path / "out"))
    assert told["accepted"] == 6
    for line in (tmp_path / "out" / "tasks.jsonl").read_text().splitlines():
        assert 0.3 <= json.loads(line)["eager_ms"] <= 2000
