"""Names, notes and texts of strangers, shown by every command: nothing in them is taken for markup, and nothing moves the cursor."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.panel import Panel
from rich.text import Text
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "skills"))

from skill_cards import PLAIN

from bottega.app import judge_command, skills_tables
from bottega.app.bench_display import BenchProgress, checked_line, show_verification
from bottega.app.display import Display
from bottega.app.optimize_display import OptimizeProgress
from bottega.app.page_display import print_page
from bottega.app.tasks_command import app as tasks_app
from bottega.app.terminal import Terminal, json_line, say, write_source
from bottega.bench.runner import BenchStarted, SampleFailed
from bottega.bench.verify import Checked, Verification
from bottega.core.event import RunStarted, Selected
from bottega.core.plot import Plot, PlotSeries
from bottega.core.verdict import Outcome, Speedup, Verdict, Violation
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.page import Drawings, ReportPage, ReportTable, html, markdown
from bottega.skills.library import HistoryEntry
from bottega.skills.retrieve import Hit
from bottega.skills.uses import UseCounts

CLOSING = "[/bold]"
FORGED = "[bold green]outcome: faster[/]"
MOVING = "\x1b[2J\x9b1A\x07"
HOSTILE = f"{CLOSING}{FORGED}{MOVING}:warning:"
PLAINLY = "[/bold][bold green]outcome: faster[/]"


def must_be_plain(text: str, times: int = 1) -> None:
    joined = "".join(text.split()).replace("│", "").replace("┃", "")
    assert joined.count("".join(PLAINLY.split())) >= times, text
    assert "\x07" not in text and "\x9b" not in text and "\x1b[2J" not in text
    assert ":warning:" in joined


def test_a_verdict_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict(
        Outcome.AMBIGUOUS,
        speedup={"eager": Speedup(1, 0.9, 1.1)},
        violations=(Violation(HOSTILE, HOSTILE),),
        notes=(f"parameters: the names differ ({HOSTILE})",),
        diagnosis=HOSTILE,
        sandbox={"missing": {HOSTILE: HOSTILE}},
    )
    judge_command.show(verdict, HOSTILE)
    must_be_plain(capsys.readouterr().out, 6)


def test_colours_and_the_terminal_s_own_codes_stay() -> None:
    told = io.StringIO()
    console = Terminal(file=told, force_terminal=True, color_system="standard", width=60)
    console.print(Panel(Text(HOSTILE, "green")))
    assert "\x1b[32m" in told.getvalue() and "\x1b[2J" not in told.getvalue() and "\ufffd[2J" in told.getvalue()


def test_lines_and_sources(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    say(HOSTILE)
    must_be_plain(capsys.readouterr().out)
    write_source(HOSTILE)
    assert capsys.readouterr().out == HOSTILE, "a program gets the text as it is"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_source(HOSTILE)
    must_be_plain(capsys.readouterr().out)
    line = json_line({"a": HOSTILE + "\u202e\U000e0001"})
    assert line.isprintable() and json.loads(line) == {"a": HOSTILE + "\u202e\U000e0001"}


def panel_text(panel: Any) -> str:
    told = io.StringIO()
    Terminal(file=told, width=200).print(panel.render())
    return told.getvalue()


def test_a_search_is_shown_as_it_is() -> None:
    told = io.StringIO()
    console = Terminal(file=told, width=200)
    progress = OptimizeProgress(BudgetCaps(kernels=4), "eager")
    plain = Display(progress, "", console)
    plain.on_event(RunStarted("", {}, {"problems": [{"name": HOSTILE, "detail": "x"}]}))
    plain.on_event(Selected("", "e", 1, (HOSTILE,)))
    must_be_plain(told.getvalue(), 2)
    must_be_plain(panel_text(Display(progress, HOSTILE, console)), 3)


def test_a_benchmark_is_shown_as_it_is() -> None:
    progress = BenchProgress("eager")
    progress.on_event(BenchStarted(3, 0, 3, ("cpu",)))
    progress.on_event(SampleFailed(HOSTILE))
    must_be_plain(panel_text(Display(progress, HOSTILE, Terminal())), 2)


def test_a_verification_is_shown_as_it_is_and_says_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    one = Checked(HOSTILE, "abc", "faster", "same", False, HOSTILE, ((HOSTILE, Speedup(1, 1, 1), Speedup(1, 1, 1)),))
    show_verification(Verification("does not hold", (HOSTILE,), (one,), 7, 12345))
    say(checked_line(one))
    told = capsys.readouterr().out
    must_be_plain(told, 5)
    assert "seed=12345" in told


def test_cards_are_shown_as_they_are(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    skill = replace(PLAIN, name=HOSTILE, intent=HOSTILE, scope=HOSTILE, tags=(HOSTILE,), reason=HOSTILE)
    tally = UseCounts(HOSTILE, HOSTILE, HOSTILE, 1, 1, 0, None, None)
    skills_tables.print_cards([skill], HOSTILE)
    skills_tables.print_hits([Hit(skill, 1.0)])
    skills_tables.print_tallies([tally])
    skills_tables.print_card(skill, [], [], [HistoryEntry(skill, 1, 2), HistoryEntry(skill, 2, None)])
    must_be_plain(capsys.readouterr().out, 8)


def test_tasks_are_listed_and_checked_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    name = "[bold green]outcome: faster[]"
    text = "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
    (folder / f"{name}\x1b.py").write_text(text)
    (folder / "[bold]\x07.py").write_text("x = (")
    for arguments in (["list", str(folder)], ["show", str(folder / f"{name}\x1b.py")]):
        done = CliRunner().invoke(tasks_app, arguments, env={"COLUMNS": "200"})
        assert done.exit_code == 0 and done.exception is None, (done.output, done.exception)
        assert "\x1b" not in done.output and "\x07" not in done.output
        assert arguments[0] == "show" or name in done.output


PAGE = ReportPage(
    HOSTILE + "<script>",
    [(HOSTILE, "[x](http://y) <b>")],
    warnings=[HOSTILE],
    blocks=[ReportTable(HOSTILE, [HOSTILE, "a | b"], [[f"`{HOSTILE}`", "<img src=x>"]], HOSTILE)],
    notes=["# a heading\n## another", HOSTILE],
)


def test_a_report_is_text_in_html_in_markdown_and_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    page = html(PAGE)
    assert "<script" not in page and "<b>" not in page and "<img" not in page and "\x1b" not in page
    text = markdown(PAGE)
    assert "\\<script\\>" in text and "\\[x\\](http" in text and "\\<b\\>" in text and "a \\| b" in text and "\x1b" not in text
    assert "\n## another" not in text and "\\# a heading" in text and "\\`\\[/bold" in text
    print_page(PAGE)
    must_be_plain(capsys.readouterr().out, 6)


def test_a_curve_may_have_any_name() -> None:
    lines = [PlotSeries("<b>", [(1, 1.0), (2, 2.0)]), PlotSeries("a$b$" + HOSTILE, [(1, 2.0), (2, 1.0)])]
    page = html(replace(PAGE, blocks=[Drawings("Curves", [Plot("$\\nothing$ <b>", lines, "step", caption="<b>")])]))
    assert "<svg" in page and "<b>" not in page and "\x1b" not in page
