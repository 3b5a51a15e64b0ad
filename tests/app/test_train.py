"""`bottega train` and `bottega report` as a user calls them: real judge, a model with random weights, and files to look at."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="a model in this process needs transformers")

from rich.console import Console
from tiny import saved_tiny
from typer.testing import CliRunner

from bottega.app.report_command import app as report_app
from bottega.app.training_command import _settings, train_app
from bottega.app.training_display import TrainingProgress
from bottega.core.errors import UsageError
from bottega.core.event import Measured, RunStarted
from bottega.episodes.journal import EpisodeJournal
from bottega.service.dashboard.training_plots import labels
from bottega.train.config import read_config
from bottega.train.metrics import TrainingStarted
from bottega.train.rl import Learning
from bottega.train.run_directory import RunDirectory
from bottega.train.settings import Config

SETTINGS = [
    "data.tasks=[\"builtin:star_relu\"]", "data.steps=1", "data.longest=4096", "data.pack_tokens=8192",
    "rollout.samples=2", "rollout.turns=1", "rollout.summaries=0", "rollout.max_tokens=4", "rollout.schemes=1",
    "rollout.cache_tokens=16384", "model.device=cpu", "log.tensorboard=false",
]  # fmt: skip


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    model = saved_tiny(tmp_path / "tiny", max_position_embeddings=4096)
    out = tmp_path / "run"
    done = CliRunner().invoke(train_app, ["--out", str(out), f"model.name={model}", *SETTINGS])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "1 steps" in done.output
    return out


@pytest.mark.rotates
def test_a_run_is_trained_and_drawn(trained: Path) -> None:
    assert (trained / "model" / "config.json").exists()
    assert (trained / "checkpoints" / "step-00000001").is_dir()
    done = CliRunner().invoke(report_app, [str(trained)])
    assert done.exit_code == 0, (done.output, done.exception)
    page = (trained / "report.html").read_text()
    assert "Reinforcement learning: run" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing is fetched"
    charts = re.findall(r"<svg .*?</svg>", page, re.S)
    assert len(charts) >= 8
    for chart in charts:
        ElementTree.fromstring(chart)
    text = (trained / "report.md").read_text()
    assert "| reward |" in text
    told = CliRunner().invoke(report_app, [str(trained), "--markdown"])
    assert told.output == text
    with pytest.raises(UsageError, match="holds a run already"):
        CliRunner().invoke(train_app, ["--out", str(trained), *SETTINGS], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rollout.task=3"], "did you mean rollout.tasks?"),
        (["rollout.tasks=0"], "rollout.tasks = 0"),
        (["skills.least_rounds=99"], "must not be above rounds"),
        (["--preset", "one-cpu"], "no preset is called"),
        (["--resume"], "no run to resume"),
        (["--resume", "--preset", "davinci"], "no run to resume"),
        (["data.tasks=[\"nowhere.py\"]", "model.device=cpu"], "no such file"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_leaves_no_run(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(train_app, ["--out", str(tmp_path / "run"), *arguments])
    assert isinstance(done.exception, UsageError), done.output
    assert told in str(done.exception)
    assert not (tmp_path / "run").exists()


def events(folder: Path, stage: str, count: int) -> None:
    """A run's log as the loop writes it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"stage": stage, "data": "some/rows"}))
    with EpisodeJournal(folder) as journal:
        journal.write(RunStarted(f"bottega {stage}", Config().model_dump(mode="json"), {"cpu": "<b>a cpu</b>"}))
        for step in range(1, count + 1):
            values = {
                "reward": step / count,
                "nll": 3 - step / count,
                "turn1/reward": 0.1,
                "turn2/reward": 0.2,
                "seconds/rollout": 2.0,
            }
            journal.write(Measured(f"train/{step}", step, values, "<i>left out</i>" if step == 2 else ""))
        journal.write(Measured(f"eval/{count}", count, {"nll": 2.5, "nll/write": 2.4}))
        journal.write(Measured(f"alarm/0/{count}", count, {}, "entropy fell"))


@pytest.mark.parametrize("stage", ["rl", "sft"])
def test_each_kind_of_run_has_its_report(stage: str, tmp_path: Path) -> None:
    events(tmp_path / "run", stage, 60)
    place = tmp_path / "elsewhere.html"
    done = CliRunner().invoke(report_app, [str(tmp_path / "run"), "--output", str(place)])
    assert done.exit_code == 0, (done.output, done.exception)
    page = place.read_text()
    assert "entropy fell" in page
    assert "<i>" not in page, "what a log holds is never taken for HTML"
    assert "<b>" not in page
    assert ("Held-out loss" in page) is (stage == "sft")
    assert ("some/rows" in page) is (stage == "sft"), "what was learned from"
    assert ("builtin" in page) is (stage == "rl")
    assert ("Reward by turn" in page) is (stage == "rl")


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    for arguments, told in (([str(tmp_path)], "holds no run"), ([str(tmp_path / "search")], "writes its own report")):
        if told.startswith("writes"):
            with EpisodeJournal(tmp_path / "search") as journal:
                journal.write(RunStarted("bottega optimize module.py", {}, {}))
        done = CliRunner().invoke(report_app, arguments)
        assert isinstance(done.exception, UsageError)
        assert told in str(done.exception)
    events(tmp_path / "new", "dance", 1)
    assert "kind 'dance'" in str(CliRunner().invoke(report_app, [str(tmp_path / "new")]).exception)


def test_a_run_without_a_finished_step_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"stage": "rl"}')
    with EpisodeJournal(tmp_path / "run") as journal:
        journal.write(RunStarted("bottega train", Config().model_dump(mode="json"), {}))
    assert CliRunner().invoke(report_app, [str(tmp_path / "run")]).exit_code == 0
    assert "No step is finished yet" in (tmp_path / "run" / "report.html").read_text()


def test_the_display_tells_steps_alarms_and_cards() -> None:
    training = TrainingProgress()
    assert "reward 0.500" in training.on_event(Measured("train/1", 1, {"reward": 0.5}, ""))
    assert "alarm: entropy" in training.on_event(Measured("alarm/0/1", 1, {}, "entropy fell"))
    assert "2 cards admitted" in training.on_event(Measured("checkpoint/1", 1, {"admitted": 2.0, "retired": 0.0}))
    assert training.cards["admitted"] == 2


def shown(training: TrainingProgress, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(training.render())
    return console.export_text()


@pytest.mark.parametrize("width", [80, 160])
def test_the_panel_shows_a_resumed_run_with_its_past(width: int) -> None:
    training = TrainingProgress()
    assert "reading the model" in shown(training, width)
    past = (
        *(
            Measured(f"train/{step}", step, {"reward": 0.3 if step == 3 else 0.1, "correct": 0.5}, "an old note")
            for step in (1, 2, 3)
        ),
        Measured("eval/2", 2, {"nll": 2.5}),
        Measured("checkpoint/3", 3, {"admitted": 1.0, "retired": 0.0, "cards": 1.0}),
    )
    told = training.on_event(TrainingStarted(9, 3, "a-model", 1000, 10, "1 task, decoder: plain; 61 cards", 61, past))
    assert told == "a-model, 1,000 parameters, 10 of them trained; 1 task, decoder: plain; 61 cards; 9 steps, 3 of them done"
    panel = shown(training, width)
    assert "3 of 9" in panel
    assert "▁▁█ 0.300" in panel and "2.5000 at 2" in panel
    assert "61 in the library; 1 admitted, 0 retired by this run" in panel
    assert "old note" not in panel
    told = training.on_event(Measured("checkpoint/4", 4, {"admitted": 2.0, "retired": 1.0}))
    assert told == "step 4: kept, 2 cards admitted, 1 retired, 63 in the library", "without a terminal too"
    training.on_event(Measured("alarm/0/4", 4, {}, "entropy fell"))
    panel = shown(training, width)
    assert "63 in the library; 3 admitted, 1 retired by this run" in panel
    assert "step 4: alarm: entropy fell" in panel
    assert "now the update" not in panel
    training.on_event(Learning(5))
    assert "now the update" in shown(training, width)
    assert max(map(len, panel.splitlines())) <= width


def test_names_in_a_legend_are_without_what_they_share() -> None:
    assert labels(["turn1/reward", "turn2/reward"]) == ["turn1", "turn2"]
    assert labels(["skills/proved", "skills/passed"]) == ["proved", "passed"]
    assert labels(["dropped/coverage", "clipped_share"]) == ["dropped/coverage", "clipped_share"]
    assert labels(["write/reward", "select/count"]) == ["write/reward", "select/count"]
    assert labels(["turn1/reward"]) == ["turn1/reward"]


def test_the_command_that_began_a_run_goes_on_with_it_as_it_is(tmp_path: Path) -> None:
    """With its preset too: so torchrun starts the ranks again after one was lost, and so people do."""
    config = read_config("rl", "laptop,kevin", None, ["data.steps=5"])
    RunDirectory(tmp_path).begin("rl", config)
    assert _settings("rl", tmp_path, "laptop,kevin", None, ["data.steps=5"], True) == config
    assert _settings("rl", tmp_path, "laptop,kevin", None, ["data.steps=5", "checkpoint.every=3"], True).checkpoint.every == 3
    with pytest.raises(UsageError, match=r"stays the same run: data\.steps cannot be changed"):
        _settings("rl", tmp_path, "laptop,kevin", None, [], True)
