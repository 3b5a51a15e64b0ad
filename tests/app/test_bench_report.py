"""`bottega report` and `bottega compare` over benchmark runs, as a user calls them: files of runs in, pages and tables out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from typer.testing import CliRunner
from worked import Told, attempt, run_of

from bottega.app.compare_command import app as compare_app
from bottega.app.compare_command import short_names
from bottega.app.report_command import app as report_app
from bottega.bench.run_directory import ATTEMPTS, BENCH, TASKS
from bottega.core.errors import UsageError
from bottega.core.files import strict

TOLD: dict[str, list[list[Told]]] = {
    "a": [["incorrect", 2.0], [None, 1.1]],
    "b": [[(1.1, 0.9, 1.3), "compile_error"], ["timeout", (1.05, 1.01, 1.09)]],
    "c": [["rejected", "incorrect"], ["compile_error", None]],
    "d": [[0.5, 0.6], ["invalid_task", 0.4]],
}
FACTS = {"a": {"level": 1, "family": "norm"}, "b": {"level": 2, "family": "<b>conv</b>"}, "c": {"level": 2, "family": "conv|x",
         "trouble": "the device was lost"}, "d": {"level": None, "family": "", "fitness": "launch_bound: 0.01 ms"}}  # fmt: skip


def kept(folder: Path, told: dict[str, list[list[Told]]] = TOLD, **settings: object) -> Path:
    """A run's folder, as `bottega bench` leaves it."""
    run = run_of(told, FACTS)
    rows = [attempt(*each.key, _told(told, *each.key), baselines=("eager", "compile"), skills=("tile",) if each.sample else ())
            for each in run.attempts]  # fmt: skip
    folder.mkdir()
    head = {"schema": 1, "settings": {**run.settings, **settings}, "fingerprint": run.fingerprint, "hashes": {}}
    (folder / BENCH).write_text(json.dumps(head))
    (folder / TASKS).write_text("".join(json.dumps(task.to_json()) + "\n" for task in run.tasks))
    (folder / ATTEMPTS).write_text("".join(json.dumps(strict(row.to_json())) + "\n" for row in rows))
    return folder


def _told(told: dict[str, list[list[Told]]], task: str, sample: int, turn: int) -> Told:
    return told[task][sample][turn]


@pytest.mark.rotates
def test_a_benchmark_is_drawn(tmp_path: Path) -> None:
    run = kept(tmp_path / "run")
    done = CliRunner().invoke(report_app, [str(run)])
    assert done.exit_code == 0, (done.output, done.exception)
    page = (run / "report.html").read_text()
    assert "Benchmark: run" in page
    assert "<script" not in page and "<b>conv</b>" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing is fetched"
    charts = re.findall(r"<svg .*?</svg>", page, re.S)
    titles = [ElementTree.fromstring(chart).get("aria-label") for chart in charts]
    assert titles == ["fast_p against eager", "fast_p against compile", "Speedup over eager", "Speedup over compile", "By turn",
                      "Best of n", "Samples or turns"]  # fmt: skip
    text = (run / "report.md").read_text()
    told = CliRunner().invoke(report_app, [str(run), "--markdown"])
    assert told.output == text
    for part in (
        "| correct | 75%",
        "| fast_1, surely | 50%",
        "launch_bound: 0.01 ms",
        "the device was lost",
        "conv\\|x",
        "| 2 | 1 × 2 |",
        "How answers ended, by family",
    ):
        assert part in text
    alone = tmp_path / "alone.md"
    assert CliRunner().invoke(report_app, [str(run), "-o", str(alone)]).exit_code == 0
    assert alone.read_text() == text and not alone.with_suffix(".html").exists()


@pytest.mark.parametrize("told", [{}, {"a": [], "b": []}])
def test_a_run_that_has_only_begun_is_drawn_too(tmp_path: Path, told: dict[str, list[list[Told]]]) -> None:
    run = kept(tmp_path / "run", told)
    done = CliRunner().invoke(report_app, [str(run)])
    assert done.exit_code == 0, (done.output, done.exception)
    page = (run / "report.html").read_text()
    assert "No attempt is finished yet." in page
    assert "no task has an attempt yet" in page if told else "the run has no tasks" in page


def test_runs_are_compared(tmp_path: Path) -> None:
    base = kept(tmp_path / "base")
    same = CliRunner().invoke(compare_app, [str(base), str(base)]).output
    assert "nothing can differ" in same and "moved most" not in same
    better = kept(tmp_path / "better", {**TOLD, "c": [["rejected", 3.0], [None, None]]}, precision="tf32")
    shown = CliRunner().invoke(compare_app, [str(base), str(better)])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    assert "precision unknown against tf32" in shown.output
    assert "1 win (1 newly right), 0 losses, 3 ties" in shown.output
    text = CliRunner().invoke(compare_app, [str(base), str(better), "--markdown", "--baseline", "compile"]).output
    assert "> **better: judged otherwise" in text
    assert "| task c | conv\\|x | not right | 3.00× (2.97 to 3.03) | win |" in text
    told = json.loads(CliRunner().invoke(compare_app, [str(base), str(better), str(base), "--json"]).output)
    assert [each["groups"][0]["wins"] for each in told["comparisons"]] == [1, 0]
    assert told["comparisons"][0]["groups"][0]["correct"]["point"] == 0.25
    assert any("the same run" in note for note in told["comparisons"][1]["notes"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["base"], "at least two runs"),
        (["base", "nowhere"], "no benchmark run is there"),
        (["base", "base", "--baseline", "sloth"], "unknown baseline 'sloth'"),
        (["base", "base", "--json", "--markdown"], "cannot both"),
        (["base", "other"], "share no task"),
    ],
)
def test_what_cannot_be_compared_is_said(tmp_path: Path, arguments: list[str], told: str) -> None:
    kept(tmp_path / "base")
    kept(tmp_path / "other", {"z": [[1.0]]})
    with pytest.raises(UsageError, match=told):
        CliRunner().invoke(
            compare_app,
            [str(tmp_path / each) if each in ("base", "nowhere", "other") else each for each in arguments],
            catch_exceptions=False,
        )


def test_names_tell_runs_apart() -> None:
    assert short_names([Path("/x/one"), Path("/x/two")]) == ["one", "two"]
    assert short_names([Path("/x/run"), Path("/y/run")]) == ["x/run", "y/run"]
    assert short_names([Path("/x/run"), Path("/x/run")]) == ["run", "run (2)"]
