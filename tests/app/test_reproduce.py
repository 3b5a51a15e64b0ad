"""The reproduction's plan: commands that the command line takes as they are, and marks that hold a run to its settings."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bottega.app.cli import app
from bottega.train.config import read_config

FILE = Path(__file__).parents[2] / "benchmarks" / "reproduce.py"


@pytest.fixture(scope="module")
def reproduce() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reproduce", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reproduce"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def called(reproduce: ModuleType, *words: str) -> tuple[int, str]:
    told = typer.Typer()
    told.command()(reproduce.main)
    result = CliRunner().invoke(told, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize("options", [("--device", "cpu"), ("--minutes", "12"), ("--minutes", "600", "--workers", "12")])
def test_every_command_of_the_plan_is_one(reproduce: ModuleType, options: tuple[str, ...]) -> None:
    code, output = called(reproduce, "--show", *options)
    lines = [shlex.split(line) for line in output.splitlines() if not line.startswith("#")]
    assert code == 0 and len(lines) >= len(reproduce.SHARES)
    for _, *words in lines:
        command = typer.main.get_command(app)
        context = typer.Context(command)  # type: ignore[arg-type]
        while hasattr(command, "get_command"):  # down to the command itself, whose options are then parsed and not run
            command = command.get_command(context, words.pop(0))
        command.make_context("command", words)


def test_a_stage_that_is_done_is_passed_over_and_other_settings_are_refused(reproduce: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "done").mkdir(parents=True)
    before = ""
    for stage in reproduce.plan(out, "cpu", 10.0, "terse", reproduce.cpu_sizes()):
        before = stage.digest(before)
        if stage.name != "evaluate":
            (out / "done" / f"{stage.name}.json").write_text(json.dumps({"hash": before, "seconds": 60, "at": "then"}))
    code, output = called(reproduce, "--out", str(out), "--device", "cpu", "--stage", "pack")
    assert (code, output.count("done, 1.0 min")) == (0, len(reproduce.SHARES) - 1)
    code, output = called(reproduce, "--out", str(out), "--device", "cpu", "--style", "full")
    assert code == 2 and "teach was begun with other settings" in output
    mark = json.loads((out / "done" / "judge.json").read_text())
    (out / "done" / "judge.json").write_text(json.dumps({**mark, "seconds": 0}))  # begun, and killed
    code, output = called(reproduce, "--out", str(out), "--device", "cpu", "--stage", "sft")
    assert code == 2 and "judge comes first and is not done" in output
    code, output = called(reproduce, "--out", str(out), "--device", "cpu", "--stage", "stf")
    assert code == 2 and "there is no stage stf" in output


def stages(reproduce: ModuleType, device: str, minutes: float = 60) -> dict[str, Any]:
    sizes = reproduce.cpu_sizes() if device == "cpu" else reproduce.gpu_sizes(minutes, 12)
    return {stage.name: stage for stage in reproduce.plan(Path("out"), device, minutes, "terse", sizes)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rl_has_turns_a_summariser_and_settings_that_are_known(reproduce: ModuleType, device: str) -> None:
    (command,) = stages(reproduce, device)["rl"].commands
    preset = command[command.index("--preset") + 1]
    config = read_config("rl", preset, None, [word for word in command if "=" in word])
    assert config.rollout.turns > 1 and config.rollout.summaries > 0
    if device == "cuda":
        assert config.rollout.samples * (config.rollout.schemes + 1) == 16, "a task's group"
        assert config.skills.rounds >= 24 and config.skills.siblings >= 6


def test_the_gate_of_an_hour_has_rounds_enough_to_admit(reproduce: ModuleType) -> None:
    (command,) = stages(reproduce, "cuda")["gate"].commands
    rounds = next(int(word.removeprefix("rounds=")) for word in command if word.startswith("rounds="))
    assert rounds >= 24


@pytest.mark.parametrize("minutes", [12, 60, 240])
def test_the_minutes_are_shared_out(reproduce: ModuleType, minutes: float) -> None:
    """By what each stage is known to take, with a start of its commands."""
    assert sum(stage.minutes for stage in stages(reproduce, "cuda", minutes).values()) == pytest.approx(minutes)
    share = {name: 60 * part * minutes for name, part in reproduce.SHARES.items()}
    (rl,) = stages(reproduce, "cuda", minutes)["rl"].commands
    steps = next(int(word.removeprefix("data.steps=")) for word in rl if word.startswith("data.steps="))
    assert 60 + 41 * steps <= share["rl"] or steps == 1
    (gate,) = stages(reproduce, "cuda", minutes)["gate"].commands
    proofs = next(int(word.removeprefix("proofs=")) for word in gate if word.startswith("proofs="))
    assert 60 * proofs <= share["gate"] or proofs == 2


def test_a_killed_stage_is_gone_on_with_and_done_ones_are_not_done_again(
    reproduce: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    dies = {"sft"}

    def run(command: list[str], **options: object) -> SimpleNamespace:
        words = command[3:]
        ran.append(words)
        if words[0] in ("sft", "train"):
            folder = Path(words[words.index("--out") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.json").write_text("{}")
            if words[0] not in dies:
                (folder / "model").mkdir()
        return SimpleNamespace(returncode=-9 if words[0] in dies else 0, stdout="", stderr="")

    monkeypatch.setattr(reproduce.subprocess, "run", run)
    with pytest.raises(SystemExit):
        reproduce.main(tmp_path, "cpu")
    before = [words for words in ran if words[0] in ("tasks", "data")]
    dies.clear()
    ran.clear()
    reproduce.main(tmp_path, "cpu")
    assert ran[0] == ["sft", "--out", str(tmp_path / "sft"), "--resume"]
    assert before and not [words for words in ran if words in before]
    assert json.loads((tmp_path / "done" / "sft.json").read_text())["restarted"]
    rows = (tmp_path / "results.md").read_text().splitlines()
    assert next(row for row in rows if row.startswith("| sft |")).count("since a restart") == 1
    assert not [row for row in rows if row.startswith("| tasks |") and "restart" in row]
    ran.clear()
    reproduce.main(tmp_path, "cpu")
    assert [words[0] for words in ran] == ["compare"], "all is done"
