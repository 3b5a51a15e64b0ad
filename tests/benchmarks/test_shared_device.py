"""The share of kernels that a run called ambiguous and that are faster alone: figures by hand, and one run judged again for real."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import typer
from bench.small_bench import CPP, cpp_text, task_text
from bench.worked import run_of
from shared_device import Again, main, share_lost, unique
from typer.testing import CliRunner

from bottega.bench.run_directory import Recorder, begin
from bottega.bench.settings import BenchJudgeSettings
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.languages import candidate_from


def again(then: str, now: str) -> Again:
    return Again("t", then, now)


@pytest.mark.parametrize(
    ("ambiguous", "faster", "found", "expected"),
    [
        (0, 10, [], (0, 10)),
        (4, 6, [again("ambiguous", "faster"), again("ambiguous", "same")], (2, 8)),
        (2, 6, [again("ambiguous", "ambiguous"), again("ambiguous", "slower"), again("faster", "faster")], (0, 6)),
    ],
)
def test_what_was_not_judged_again_is_like_what_was(
    ambiguous: int, faster: int, found: list[Again], expected: tuple[float, float]
) -> None:
    assert share_lost(ambiguous, faster, found) == expected


def test_a_kernel_counts_once() -> None:
    attempts = run_of({"t": [[1.5, "incorrect"], [None]]}).attempts
    assert len(unique([*attempts, replace(attempts[0], sample=5)])) == 2


@pytest.mark.slow
def test_a_run_is_judged_again(tmp_path: Path) -> None:
    source, text = task_text("torch.relu(x)"), cpp_text(CPP["1_Relu"])
    name, candidate = Task(source).id, candidate_from(text)
    run = run_of({name: [[(1.2, 0.5, 9.0)]]}, tasks={name: {"source": source}})
    attempt = replace(run.attempts[0], candidate=hashlib.sha256(text.encode()).hexdigest()[:16], language=candidate.language)
    settings = {**run.settings, **asdict(BenchJudgeSettings(quick=True))}
    begin(tmp_path / "run", {"settings": settings, "fingerprint": run.fingerprint, "hashes": {}, "command": "", "begun": ""})
    with Recorder(tmp_path / "run") as recorder:
        recorder.note(run.tasks[0])
        recorder.add(attempt, text)
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, [str(tmp_path / "run")])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    assert "1 kernels were timed in the run" in done.output and ", alone " in done.output
    elsewhere = CliRunner().invoke(app, [str(tmp_path / "run"), "--device", "cuda"])
    assert isinstance(elsewhere.exception, UsageError) and "give --device cpu" in str(elsewhere.exception)
