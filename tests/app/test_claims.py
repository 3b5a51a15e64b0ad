"""The claims' runs and table: real runs of a scripted model for the one, small runs on paper for the other."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer
from bench.small_bench import CPP, cpp_text, task_folder
from bench.worked import Told, run_of
from typer.testing import CliRunner

from bottega.app.cli import app
from bottega.app.configured import given_by
from bottega.bench.attempt import BenchRun
from bottega.bench.run_directory import LEADERBOARD, Recorder, begin, read_run
from bottega.bench.settings import BenchSettings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODEL = """
import time


def script(messages, sampling):
    if {slow!r}:
        time.sleep(0.2)
        return "I do not know."
    return "```python\\n" + {text!r} + "```\\n"
"""


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield {name: importlib.import_module(name) for name in ("paired", "claims")}
        for name in ("paired", "claims"):
            sys.modules.pop(name, None)


def called(script: ModuleType, *words: object) -> tuple[int, str]:
    result = CliRunner().invoke(script.app, [str(word) for word in words])
    return result.exit_code, f"{result.output}{result.exception or ''}"


def kept(folder: Path, told: dict[str, Sequence[Sequence[Told]]], **changes: object) -> BenchRun:
    run = run_of(told, folder=folder, **changes)
    head = {"settings": run.settings, "fingerprint": run.fingerprint, "hashes": {}, "command": f"bottega bench {folder.name}"}
    begin(folder, {**head, "begun": "2026-01-02T03:04:05Z"})
    with Recorder(folder) as recorder:
        for task in run.tasks:
            recorder.note(task)
        for attempt in run.attempts:
            recorder.add(attempt, "text")
    return read_run(folder)


def test_every_command_of_the_plan_is_one(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    wanted = ("--tasks", "a", "--tasks", "b", "--model", "embedded", "--rl-model", "local:x", "--write-only-model", "local:y")
    code, output = called(
        scripts["claims"], "run", *wanted, "--out", tmp_path, "--limit", "9", "--minutes", "20", "--show", "--", "seed=7"
    )
    commands = [shlex.split(line) for line in output.splitlines() if not line.startswith("#")]
    assert code == 0 and len(commands) == 7
    assert sum(float(line.split()[3]) for line in output.splitlines() if line.startswith("#")) == pytest.approx(20, abs=0.5)
    group = typer.main.get_command(app)
    bench = group.get_command(typer.Context(group), "bench")  # type: ignore[attr-defined, arg-type]
    given = {
        words[words.index("--out") + 1]: given_by(BenchSettings, bench.make_context("bench", words[2:]).params)
        for words in commands
    }
    turns = {
        Path(out).name: (each.settings.samples, each.settings.turns, each.settings.temperature) for out, each in given.items()
    }
    assert turns["parallel"] == (4, 1, 0.8) and turns["serial"] == (1, 4, 0.8) and turns["greedy-rl"] == (1, 1, 0.0)
    assert all(each.settings.seed == 7 and each.settings.limit == 9 and each.words == ["a", "b"] for each in given.values())


def test_what_earlier_runs_judged_is_known_to_later_ones(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    def shown() -> list[str]:
        wanted = ("--tasks", "a", "--model", "embedded", "--out", tmp_path, "--only", "skills-bm25", "--show")
        code, output = called(scripts["claims"], "run", *wanted)
        assert code == 0, output
        return shlex.split(output.splitlines()[-1])

    command = shown()
    assert not any(word.startswith("known=") for word in command)
    begin(tmp_path / "skills-bm25", {"settings": {}, "fingerprint": {}, "hashes": {}, "command": shlex.join(command)})
    kept(tmp_path / "greedy", {"t": [["incorrect"]]})
    kept(tmp_path / "skills-selector", {})
    kept(tmp_path / "serial", {"t": [["incorrect"]]})
    assert shown() == [*command[:-2], f'known=["{tmp_path / "greedy"}"]', *command[-2:]], "and it is the same run still"


@pytest.mark.slow
def test_a_whole_run_is_not_made_again_and_one_whose_time_is_up_is_stopped(
    scripts: dict[str, ModuleType], tmp_path: Path
) -> None:
    task_folder(tmp_path)
    for name in ("quick", "slow"):
        (tmp_path / f"{name}.py").write_text(MODEL.format(slow=name == "slow", text=cpp_text(CPP["1_Relu"])))

    def words(model: str, run: str, minutes: float, *more: str) -> list[str]:
        task, spec = tmp_path / "tasks" / "level1" / "1_Relu.py", f"scripted:{tmp_path / model}.py"
        told = [
            "run",
            "--tasks",
            task,
            "--model",
            spec,
            "--device",
            "cpu",
            "--out",
            tmp_path / "claims",
            "--workers",
            1,
            "--at-once",
            1,
        ]
        return [*map(str, told), "--only", run, "--minutes", str(minutes), *more]

    code, output = called(scripts["claims"], *words("quick", "greedy", 4))
    assert code == 0 and "greedy: ended after" in output and "1 of 1 tasks have every answer" in output
    code, output = called(scripts["claims"], *words("quick", "greedy", 4))
    assert (code, "# greedy: done" in output, "ended" in output) == (0, True, False)
    command = [sys.executable, str(BENCHMARKS / "claims.py"), *words("slow", "parallel", 0.1, "--", "samples=900")]
    stopped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert stopped.returncode == 0 and "parallel: stopped after" in stopped.stdout, stopped.stderr
    assert not (tmp_path / "claims" / "parallel" / LEADERBOARD).exists()
    command = [sys.executable, str(BENCHMARKS / "claims.py"), *words("slow", "greedy", 4)]
    other = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (other.returncode, "greedy: was begun as bench" in other.stderr) == (2, True)


def test_the_table_counts_tasks_that_both_runs_tried(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    tasks = [f"t{number}" for number in range(12)]
    base = kept(tmp_path / "greedy", {task: [["incorrect"]] for task in tasks})
    gained = kept(
        tmp_path / "skills-selector", {task: [[2.0 if number < 9 else 0.5]] for number, task in enumerate(tasks[:10])}
    )
    assert len(scripts["paired"].tried(base)) == 12 and scripts["paired"].pairing(base, gained).tasks == 10
    kept(tmp_path / "skills-bm25", {task: [[(1.5, 0.9, 2.0)]] for task in tasks})
    code, text = called(scripts["claims"], "table", tmp_path)
    assert code == 0 and (tmp_path / "claims.md").read_text() == text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    skills, chosen = rows[2:5], rows[5:8]
    assert skills[0][1:5] == ["10", "right", "0 (0%)", "10 (100%)"] and skills[0][-1] == "holds"
    assert skills[1][3:5] == ["0 (0%)", "9 (90%)"] and skills[1][-2] == "9, 0 (p = 0.0039)"
    assert [row[-1] for row in chosen] == ["cannot be told", "cannot be told", "holds"]  # by the point: ten against nine
    assert chosen[1][5].startswith("-10.0 (") and rows[8][-1] == "not measured"


def test_a_change_that_every_task_has_is_still_doubted(scripts: dict[str, ModuleType]) -> None:
    found = scripts["paired"].findings(np.zeros((2, 3)), np.ones((2, 3)))[0]
    assert (found.difference, found.word) == (1.0, "cannot be told") and found.low < 0


def test_samples_and_turns_are_compared_at_equal_numbers_of_answers(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    parallel = {"a": [["incorrect"], [2.0]], "b": [["incorrect"], ["incorrect"]], "c": [[2.0]]}  # of c, one sample is missing
    serial: dict[str, Sequence[Sequence[Told]]] = {"a": [["incorrect", 0.5]], "b": [["incorrect", 3.0]], "c": [[None, None]]}
    kept(tmp_path / "parallel", parallel)
    kept(tmp_path / "serial", serial)
    steps = scripts["paired"].curve(scripts["paired"].pairing(*(read_run(tmp_path / name) for name in ("parallel", "serial"))))
    assert [(step.answers, step.findings[0].base, step.findings[0].other) for step in steps] == [(1, 0.25, 0.0), (2, 0.5, 1.0)]
    assert steps[1].findings[1].other == 0.5  # right and slower is not faster
