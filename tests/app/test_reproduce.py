"""The reproduction's plan: commands that the command line takes as they are, and marks that hold a run to its settings."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

from bottega.app.cli import app

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
