"""`bottega bench` as a user calls it, with the real judge, real compilers and a scripted model: killed and resumed, checked and forged."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from app.command_line import in_this_process
from bench.small_bench import CPP, cpp_text, task_folder
from rich.console import Console

from bottega.app.bench_display import BenchProgress
from bottega.bench.attempt import BenchAttempt, BenchRun, BenchTask
from bottega.bench.run_directory import SAMPLES, read_run
from bottega.bench.runner import BenchStarted, SampleFailed, SampleKept
from bottega.core.verdict import Outcome, Speedup, Verdict

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
BOTTEGA = [sys.executable, "-m", "bottega.app.cli", "bench"]
SCRIPT = """
import pathlib

KERNELS = {kernels!r}
LOG = pathlib.Path({log!r})


def script(messages, sampling):
    text = "\\n".join(message.content for message in messages)
    body = next(body for body in KERNELS if f"return {{body}}" in text)
    turn = int("0 *" in text or "wrong" in text)
    with LOG.open("a") as file:
        file.write(f"{{body}} {{turn}}\\n")
    expression = KERNELS[body] if turn else "0 * x[i]"
    return "summary: a loop.\\n```python\\n" + {text!r}.replace("EXPRESSION", expression) + "```\\n"
"""
USED = ["samples=2", "turns=2", "quick=true", "at_once=1", "only=1_Relu"]


def bottega(*arguments: object) -> subprocess.CompletedProcess[str]:
    told = subprocess.run(
        [*BOTTEGA, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, timeout=200, check=False
    )
    assert "Traceback" not in told.stderr + told.stdout, told.stderr
    return told


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks, and a model that writes a wrong kernel first and a right one when it is told so."""
    folder = tmp_path_factory.mktemp("bench")
    task_folder(folder)
    kernels = {"torch.relu(x)": CPP["1_Relu"], "x * 2": CPP["2_Double"]}
    script = SCRIPT.format(kernels=kernels, log=str(folder / "asked"), text=cpp_text("EXPRESSION"))
    (folder / "script.py").write_text(script)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    told = bottega(place / "tasks", "--backbone", f"scripted:{place / 'script.py'}", *USED, "--out", place / "whole")
    assert told.returncode == 0, told.stderr
    return place / "whole"


def outcomes(run: BenchRun) -> dict[tuple[str, int, int], tuple[str, bool]]:
    """By attempt, the kernel and whether it was accepted: how fast it was is the machine's affair."""
    return {a.key: (a.candidate, a.verdict is not None and a.verdict.outcome.accepted) for a in run.attempts}


def asked(place: Path) -> int:
    return len((place / "asked").read_text().splitlines())


@pytest.mark.slow  # test_bench_damage.py kills at every write, with a judge that answers at once
def test_a_killed_run_goes_on_and_equals_the_whole_one(place: Path, whole: Path) -> None:
    command = [place / "tasks", "--backbone", f"scripted:{place / 'script.py'}", *USED, "--out", place / "killed"]
    before = asked(place)
    process = subprocess.Popen(
        [*BOTTEGA, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    deadline = time.monotonic() + 120
    while _judged(place / "killed") < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)  # until the second sample has one of its two verdicts
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept, judged = len(read_run(place / "killed").attempts), _judged(place / "killed")
    assert kept == 2 and judged >= 3, "a half sample is not counted"
    told = bottega(*command)
    assert told.returncode == 0 and "2 samples, 1 of them done" in told.stderr, told.stderr
    resumed = read_run(place / "killed")
    assert outcomes(resumed) == outcomes(read_run(whole)) and len(resumed.attempts) == 4
    assert asked(place) - before <= 4 + 1, "only the answer that was under way may have been asked for twice"


def _judged(folder: Path) -> int:
    logs = (folder / SAMPLES).rglob("events.jsonl") if folder.exists() else ()
    return sum(log.read_bytes().count(b'{"type":"judged"') for log in logs)


def test_progress_tells_how_far_it_is_and_what_a_reader_must_know() -> None:
    progress = BenchProgress("eager")
    task = BenchTask("a", "relu", 1, "activation", "")
    verdict = Verdict(Outcome.FASTER, True, {"eager": Speedup(1.5, 1.4, 1.6)})
    right = BenchAttempt("a", 1, 0, verdict, "k", "cpp", 10, 5, 0.25, 1.0, ())
    silent = BenchAttempt("a", 1, 1, None, "", "cpp", 10, 5, 0.25, 1.0, (), "it talks")
    assert (
        progress.on_event(BenchStarted(4, 1, 2, ("cuda:0", "cuda:1")))
        == "2 tasks, 4 samples, 1 of them done, on cuda:0, cuda:1"
    )
    assert re.fullmatch(
        r"\[2/4, 0:\d\d left\] relu #1: faster 1.50×, no kernel", progress.on_event(SampleKept(task, (right, silent)))
    )
    assert progress.on_event(SampleFailed("cuda:0 is lost")) == "! cuda:0 is lost"
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(progress.render())
    drawn = console.export_text()
    for part in ("2 of 4", "1 faster", "1 no kernel", "30, 0.5000 spent", "relu #1", "cuda:0 is lost"):
        assert part in drawn


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--backbone", "scripted:x"], "no tasks"),
        (["builtin"], "either --backbone"),
        (["builtin", "--backbone", "x", "--candidates", "y"], "either --backbone"),
        (["builtin", "--candidates", "nowhere"], "no such folder of candidates"),
        (["nowhere", "--candidates", "."], "no such file or folder"),
        (["builtin", "--backbone", "scripted:nowhere.json"], "cannot be read"),
        (["builtin", "--backbone", "scripted:x", "known=nowhere"], "no benchmark run is there"),
        (["builtin", "--backbone", "x", "samples=0"], "samples = 0: Input should be greater than or equal to 1"),
        (["builtin", "--backbone", "x", "strategy=hope"], "unknown strategy 'hope'"),
        (["builtin", "--backbone", "x", "--device", "cpu,cuda"], "do not belong in one run"),
        (["builtin", "--backbone", "x", "--device", "cpu,cpu"], "once each"),
        (["builtin", "--backbone", "x", "levels=one"], "levels = "),
        (["builtin", "--backbone", "x", "money=3"], "price_prompt"),
        (["builtin", "--backbone", "x", "at_once=0"], "at_once = 0: Input should be greater"),
        (["builtin", "--backbone", "x", "context=-1"], "context = -1: Input should be greater than or equal to 512"),
        (["builtin", "--backbone", "x", "share=0.5"], "share: has no effect without --verify"),
        (
            ["builtin", "--candidates", ".", "samples=1", "money=3"],
            "samples, money: has no effect with --candidates",
        ),
        (["--verify", "nowhere"], "no such record"),
        (["builtin", "quick=true", "--verify", "nowhere"], "leave out TASKS, quick"),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_nothing(arguments: list[str], told: str, tmp_path: Path) -> None:
    ended = in_this_process("bench", *arguments, cwd=tmp_path)
    assert ended.returncode == 2 and told in ended.stderr and "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())
