"""The command line: what it prints, what it exits with, and that bad input never shows a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from app.command_line import as_a_process, in_this_process
from module_task import module_task

from bottega.app import cli

TASK = module_task("torch.tanh(x) * 2", "torch.randn(256, 256)")
HONEST = TASK.replace("class Model(", "class ModelNew(")
KERNEL = r"""
import torch
import torch.nn as nn
from bottega.runtime import cpp

library = cpp('#include <cstdint>\nextern "C" void twice(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }')

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.twice(x, y, x.numel())
        return y
"""
DOCUMENTED = {
    "outcome",
    "correct",
    "speedup",
    "times_ms",
    "error",
    "coverage",
    "violations",
    "diagnosis",
    "sandbox",
    "fingerprint",
}


def strict_json(text: str) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "honest.py").write_text(HONEST)
    (tmp_path / "wrong.py").write_text(HONEST.replace("* 2", "* 3"))
    return tmp_path


@pytest.mark.rotates
def test_json_is_one_object_with_the_documented_keys_and_exit_zero(folder: Path) -> None:
    told = as_a_process("judge", folder / "task.py", folder / "honest.py", "--quick", "--json")
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("\n") == 1
    verdict = strict_json(told.stdout)
    assert isinstance(verdict, dict)
    assert set(verdict) >= DOCUMENTED
    assert verdict["outcome"] in ("faster", "same", "slower", "ambiguous")
    assert verdict["correct"] is True
    assert set(verdict["speedup"]["eager"]) == {"point", "low", "high"}
    assert verdict["violations"] == []


@pytest.mark.slow
def test_people_get_the_same_in_words(folder: Path) -> None:
    told = as_a_process("judge", folder / "task.py", folder / "wrong.py", "--quick")
    assert told.returncode == 1
    assert "incorrect" in told.stdout
    assert "the right answer times 1.5" in told.stdout


@pytest.mark.rotates
def test_an_unusable_task_exits_two_with_one_line_and_still_one_object(folder: Path) -> None:
    (folder / "raises.py").write_text(TASK.replace("return torch.tanh(x) * 2", "raise ValueError('inside')"))
    told = as_a_process("judge", folder / "raises.py", folder / "honest.py", "--quick", "--json")
    assert told.returncode == 2
    verdict = strict_json(told.stdout)
    assert isinstance(verdict, dict)
    assert verdict["outcome"] == "invalid_task"
    assert told.stderr.strip().count("\n") == 0
    assert "raises ValueError: inside" in told.stderr


WRONG: list[tuple[list[str], str]] = [
    (["missing.py", "honest.py"], "missing.py: no such file"),
    (["task.py", "missing.py"], "missing.py: no such file"),
    (["task.py", "."], "a folder; judge one file of it, or all of them: bottega bench TASKS --candidates ."),
    (["task.py", "binary.py"], "UTF-8"),
    (["binary.py", "honest.py"], "binary.py"),
    (["empty.py", "honest.py"], "empty"),
    (["syntax.py", "honest.py"], "line 1"),
    (["honest.py", "honest.py"], "defines no Model"),
    ([".", "honest.py"], "where one is wanted"),
    (["builtin:no_such_task", "honest.py"], "no such built-in task"),
    (["builtin", "honest.py"], "where one is wanted"),
    (["task.py", "honest.py", "--baseline", "fastest"], "eager, compile, autotune or best"),
    (["task.py", "honest.py", "--baseline", "both"], "eager, compile, autotune or best"),
    (["task.py", "honest.py", "--device", "tpu"], "unknown device"),
    (["task.py", "honest.py", "--device", "cuda:x"], "cuda"),
    (["task.py", "honest.py", "--precision", "fp8"], "unknown precision"),
    (["task.py", "honest.py", "--mode", "testing"], "train, eval or as-built"),
    (["task.py", "honest.py", "--require-kernel", "2"], "between 0 and 1"),
    (["task.py", "honest.py", "--require-kernel", "much"], "--require-kernel"),
    (["task.py", "honest.py", "--timeout", "0"], "more than 0"),
    (["task.py", "honest.py", "--timeout", "nan"], "more than 0"),
    (["task.py", "honest.py", "--timeout", "inf"], "timeout"),
    (["task.py", "honest.py", "--no-such-option"], "no-such-option"),
    (["task.py"], "candidate"),
    (["", "honest.py"], "reference"),
]
COMMANDS = [
    [],
    ["judge"],
    ["demo"],
    ["export"],
    ["version"],
    ["tasks"],
    ["tasks", "list"],
    ["tasks", "show"],
    ["tasks", "check"],
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command_lines")
    (folder / "task.py").write_text(TASK)
    (folder / "honest.py").write_text(HONEST)
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00\x01")
    (folder / "empty.py").write_text("")
    (folder / "syntax.py").write_text("def (\n")
    return folder


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_usage_exits_two_and_says_what_to_do(place: Path, arguments: list[str], words: str) -> None:
    told = in_this_process("judge", *arguments, "--json", cwd=place)
    assert told.returncode == 2
    assert words in told.stderr
    if "Usage:" in told.stderr:  # the command line itself cannot be read
        assert told.stdout == ""
    else:
        (line,) = told.stdout.splitlines()
        told_as_json = strict_json(line)
        assert isinstance(told_as_json, dict)
        assert words in (told_as_json["diagnosis"] if "outcome" in told_as_json else told_as_json["error"])


def test_a_task_that_cannot_be_read_is_an_invalid_task_in_json(place: Path) -> None:
    told = in_this_process("judge", "syntax.py", "honest.py", "--json", cwd=place)
    verdict = strict_json(told.stdout)
    assert isinstance(verdict, dict)
    assert (told.returncode, verdict["outcome"], verdict["correct"]) == (2, "invalid_task", False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_works_everywhere(command: list[str]) -> None:
    told = in_this_process(*command, "--help")
    assert told.returncode == 0
    assert "Usage" in told.stdout


@pytest.mark.parametrize("command", ["export", "data join", "bench"])
def test_each_example_of_a_help_has_a_line_of_its_own(command: str) -> None:
    shown = in_this_process(*command.split(), "--help").stdout
    examples = [line.strip() for line in shown.splitlines() if line.strip().startswith("bottega ")]
    assert len(examples) > 1 and all(line.count("bottega ") == 1 for line in examples), shown


def test_version() -> None:
    assert as_a_process("version").stdout.startswith("bottega ")


def test_tasks_list() -> None:
    told = in_this_process("tasks", "list", "--json")
    rows = strict_json(told.stdout)
    assert told.returncode == 0
    assert isinstance(rows, list)
    assert len(rows) >= 30
    assert set(rows[0]) == {"name", "id", "level", "tags", "origin"}
    assert rows[0]["name"] in in_this_process("tasks", "list").stdout


def test_tasks_list_reports_the_unusable_ones_beside_the_good(folder: Path) -> None:
    (folder / "syntax.py").write_text("def (\n")
    told = in_this_process("tasks", "list", folder, "--json")
    rows = strict_json(told.stdout)
    assert isinstance(rows, list)
    assert [row["name"] for row in rows] == ["task"]
    assert "bottega: " + str(folder / "syntax.py") + ": line 1" in told.stderr
    assert "Problem(" not in told.stderr


def test_tasks_show(folder: Path) -> None:
    assert in_this_process("tasks", "show", folder / "task.py").stdout == TASK
    builtin = in_this_process("tasks", "show", "builtin:gram_matrices", "--size", "gpu")
    assert "class Model" in builtin.stdout
    assert in_this_process("tasks", "show", "builtin:gram_matrices", "--size", "huge").returncode == 2
    assert in_this_process("tasks", "show", folder / "missing.py").returncode == 2


@pytest.mark.slow
def test_tasks_check_names_what_is_unfit(folder: Path) -> None:
    (folder / "task.py").write_text(TASK.replace("256, 256", "1024, 512"))
    (folder / "honest.py").unlink()
    (folder / "wrong.py").unlink()
    (folder / "identity.py").write_text(TASK.replace("torch.tanh(x) * 2", "torch.sign(torch.exp(x)) * x"))
    (folder / "raises.py").write_text(TASK.replace("return torch.tanh(x) * 2", "raise ValueError('inside')"))
    told = as_a_process("tasks", "check", folder, "--json")
    rows = {row["task"]: row for row in map(json.loads, told.stdout.splitlines())}
    assert told.returncode == 1
    assert rows["task"]["fit"] is True, rows["task"]
    assert "identity" in {problem["name"] for problem in rows["identity"]["problems"]}
    assert "ValueError: inside" in rows["raises"]["problems"][0]["detail"]
    for line in told.stdout.splitlines():
        strict_json(line)


@pytest.mark.parametrize("arguments", [["missing.py"], ["syntax.py"], ["task.py", "--mode", "odd"]])
def test_tasks_check_of_nothing_exits_two(folder: Path, arguments: list[str]) -> None:
    (folder / "syntax.py").write_text("def (\n")
    told = in_this_process("tasks", "check", *arguments, "--json", cwd=folder)
    assert told.returncode == 2
    assert told.stderr.strip()
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert "error" in rows[-1]
    if arguments == ["syntax.py"]:
        assert rows[0]["fit"] is False and "line 1" in rows[0]["problems"][0]["detail"]


@pytest.mark.rotates
def test_export_makes_a_file_that_needs_no_bottega(folder: Path) -> None:
    (folder / "kernel.py").write_text(KERNEL)
    told = in_this_process("export", folder / "kernel.py", "--output", folder / "alone.py")
    assert told.returncode == 0, told.stderr
    proof = "import sys, torch; sys.modules['bottega'] = None; import alone; x = torch.ones(7); print(alone.ModelNew()(x).sum().item())"
    ran = subprocess.run([sys.executable, "-c", proof], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout.strip() == "14.0", ran.stderr
    assert in_this_process("export", folder / "kernel.py").stdout == (folder / "alone.py").read_text()
    (folder / "finished").mkdir()
    (folder / "kernel.py").rename(folder / "finished" / "optimized.py")
    assert in_this_process("export", folder / "finished").stdout == (folder / "alone.py").read_text()


@pytest.mark.parametrize("name", ["missing.py", "syntax.py", "binary.py", "."])
def test_export_of_what_cannot_be_exported_exits_two(folder: Path, name: str) -> None:
    (folder / "syntax.py").write_text("def (\n")
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    told = in_this_process("export", name, cwd=folder)
    assert told.returncode == 2
    assert told.stderr.startswith("bottega: ")


def test_export_to_a_place_that_cannot_be_written_exits_two(folder: Path) -> None:
    told = in_this_process("export", folder / "honest.py", "--output", folder / "no" / "such" / "folder.py")
    assert told.returncode == 2
    assert told.stderr.startswith("bottega: ")


def test_what_a_disk_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise OSError(30, "Read-only file system", "runs/mine")

    monkeypatch.setattr(cli, "app", refused)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    told = capsys.readouterr().err.split()
    assert " ".join(told).startswith("bottega: runs/mine: Read-only file system; make room or name another place")
    monkeypatch.setattr(cli, "app", lambda: int("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        cli.main()


def test_no_arguments_shows_the_help() -> None:
    assert "Usage" in (told := in_this_process()).stdout + told.stderr


def test_a_server_is_not_told_whom_to_trust() -> None:
    told = in_this_process("check", "bottega-model-1", "--own-code", "--server", "http://127.0.0.1:1")
    assert told.returncode == 2 and "--own-code" in told.stderr


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom bottega.app.cli import main\nsys.argv = ['bottega', '--help']\n"
        "try: main()\nexcept SystemExit: print([name for name in sys.modules if name.endswith('_command') or name == 'pydantic'])"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "Make a PyTorch module faster." in told and told.endswith("[]\n")


def test_the_help_of_every_command_needs_no_torch() -> None:
    """It takes seconds to import, and whoever reads a page of help waits for it."""
    modules = [f"bottega.app.{path.stem}" for path in (Path(__file__).parents[2] / "src/bottega/app").glob("*_command.py")]
    code = f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\nassert 'torch' not in sys.modules"
    assert len(modules) > 15
    subprocess.run([sys.executable, "-c", code], check=True)
