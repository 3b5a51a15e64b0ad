"""Reports, results and their check: hostile text stays text, files are whole, edits are seen, and claims are compared as they should be."""

from __future__ import annotations

import hashlib
import html as html_library
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import KERNEL, MODULE, WRONG

from bottega.core import files
from bottega.core.errors import BottegaError, TaskError, UsageError
from bottega.core.event import Event, Judged, RunStarted, Wrote
from bottega.core.turn import Turn
from bottega.core.verdict import TIME_AGAIN, Outcome, Speedup, Verdict
from bottega.episodes.attempts import attempts_of
from bottega.episodes.delivery.check import compared, open_result
from bottega.episodes.delivery.final import (
    FinalChoice,
    FinalKernel,
    RefusedKernel,
    again_in_words,
    missed,
    problems_of,
    promising,
)
from bottega.episodes.delivery.hand_over import hand_over
from bottega.episodes.delivery.optimized_file import Delivered
from bottega.episodes.delivery.page import ReportPage, html, markdown
from bottega.episodes.delivery.report import MOST_LINES, cut, report_page
from bottega.episodes.delivery.result import Result, judged_as_own, read_result
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import ModuleTask, Wanted, module_task_of

SUBJECT: ModuleTask = module_task_of(MODULE, Wanted(inputs="example", init="0.9"), "decay", "decay.py")
SETTINGS = EpisodeSettings(samples=1, turns=2)
PRINTS = {"cpu": "Some CPU", "cores": 2, "device": "cpu", "judge": "1"}
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\n```\n# heading\n````\n\x1b[31m\u202eevil\x00 {{ }} ${x}"


def verdict(point: float = 3.0, outcome: Outcome = Outcome.FASTER) -> Verdict:
    speedup = {"eager": Speedup(point, point * 0.9, point * 1.1)} if outcome.accepted else {}
    return Verdict(outcome, outcome.accepted, speedup, {"candidate": 1.0, "eager": point}, diagnosis="fine", fingerprint=PRINTS)


def events(second: str = KERNEL, diagnosis: str = "The output is wrong.") -> list[Event]:
    episode = SUBJECT.task.id
    wrong = Verdict(Outcome.INCORRECT, diagnosis=diagnosis)
    return [
        RunStarted(
            "bottega optimize decay.py", {}, {**PRINTS, "problems": [{"name": "launch_bound", "detail": "quick"}]}, at=1.0
        ),
        Wrote(
            "a", episode, "s0r0t0", None, 0, Turn("write", "", "stop", 100, 50, source=WRONG, summary=diagnosis), 1.0, at=2.0
        ),
        Judged(f"{episode}/judge/s0r0t0", episode, "s0r0t0", wrong, seconds=2.0, at=4.0),
        Wrote("b", episode, "s0r0t1", "s0r0t0", 0, Turn("write", "", "stop", 200, 60, source=second), 1.0, at=5.0),
        Judged(f"{episode}/judge/s0r0t1", episode, "s0r0t1", verdict(), seconds=2.0, at=7.0),
    ]


def settled(found: bool = True, told: list[Event] | None = None) -> FinalChoice:
    attempts = attempts_of(told or events(), SUBJECT.task.id)
    if not found:
        return FinalChoice(None, [RefusedKernel(attempts[1], HOSTILE)])
    return FinalChoice(FinalKernel(attempts[1], Delivered(KERNEL, "load"), verdict(), "", 7.0))


def content(found: bool = True, told: list[Event] | None = None, error: str = "") -> ReportPage:
    told = told or events()
    return report_page(
        told, SUBJECT.task.id, SUBJECT, SETTINGS, settled(found, told), "all turns taken", error, "bottega check /x"
    )


def delivered(folder: Path, found: bool = True) -> Result:
    folder.mkdir(exist_ok=True)
    return hand_over(
        folder, events(), SUBJECT.task.id, SUBJECT, SETTINGS, None, settled(found), "all turns taken", "", "bottega check /x"
    )


def test_a_report_tells_the_path_the_diff_and_what_it_took() -> None:
    text = markdown(content())
    assert "**3.00× (2.70 to 3.30)** against eager" in text
    assert "-        y[i] = h;\n+        y[i] = h * gain[c];" in text
    assert "1 incorrect, 1 faster" in text and "300 prompt and 110 output tokens" in text and "6 s" in text
    assert "bottega check /x" in text and "Some CPU" in text and "launch" in text and "about 7 µs" in text


def test_guessed_tokens_are_called_so() -> None:
    told = [
        replace(event, turn=replace(event.turn, estimated=True)) if isinstance(event, Wrote) else event for event in events()
    ]
    words = "2 answers (2 of them not counted by the server, so estimated)"
    assert words in html(content(told=told)) and words in markdown(content(told=told))
    assert "estimated" not in markdown(content())


def test_no_finding_is_told_with_its_reasons() -> None:
    text = markdown(content(False, error="the server died"))
    assert text.splitlines()[0].endswith(": no kernel is known to beat eager")
    assert "Looked faster, and was not handed over" in text and "the server died" in text
    page = html(content(False, error="the server died"))
    assert "No kernel surely beats eager, the module as it is." in page and "the server died" in page


def test_a_search_that_ended_before_the_first_verdict_knows_nothing() -> None:
    told = [event for event in events() if not isinstance(event, Judged)]
    text = markdown(report_page(told, SUBJECT.task.id, SUBJECT, SETTINGS, FinalChoice(None, []), "the budget is spent", "", ""))
    assert "No kernel was judged before the search ended" in text and "surely beats" not in text


def test_right_kernels_that_could_not_be_told_from_eager_are_called_so() -> None:
    told = [
        replace(event, verdict=replace(event.verdict, outcome=Outcome.AMBIGUOUS)) if isinstance(event, Judged) else event
        for event in events()
    ]
    text = markdown(report_page(told, SUBJECT.task.id, SUBJECT, SETTINGS, FinalChoice(None, []), "all turns taken", "", ""))
    assert "could not be told from it: their times spread too far. Run it again when the machine is idle." in text


def against(baseline: str, **speedups: tuple[float, float, float]) -> Verdict:
    """A last verdict whose outcome speaks of `baseline`."""
    found = {name: Speedup(*values) for name, values in speedups.items()}
    low, high = found[baseline].low, found[baseline].high
    outcome = Outcome.FASTER if low > 1 else Outcome.SLOWER if high < 1 else Outcome.AMBIGUOUS
    fastest = min((name for name in found if name != "best"), key=lambda name: found[name].point)
    return Verdict(outcome, True, found, {"candidate": 1.0}, fingerprint=PRINTS, baseline=baseline, fastest_baseline=fastest)


ONLY_EAGER = against("compile", compile=(0.8, 0.7, 0.9), eager=(3.0, 2.7, 3.3))


def second_best() -> FinalChoice:
    """Nothing beats compile; the second attempt surely beats eager."""
    attempt = attempts_of(events(), SUBJECT.task.id)[1]
    kept = FinalKernel(attempt, Delivered(KERNEL, "load"), ONLY_EAGER, "", 7.0)
    return FinalChoice(None, [RefusedKernel(attempt, again_in_words(ONLY_EAGER, "compile"))], kept)


def told_of(found: FinalChoice, *baselines: str) -> ReportPage:
    settings = replace(SETTINGS, baselines=baselines)
    return report_page(events(), SUBJECT.task.id, SUBJECT, settings, found, "all turns taken", "", "bottega check /x")


def test_what_beats_eager_only_is_told_as_that_and_kept_under_a_name_of_its_own(tmp_path: Path) -> None:
    told = told_of(second_best(), "compile")
    sentence = "No kernel surely beats compile, which was asked for; one surely beats eager, 3.00× (2.70 to 3.30)."
    text, page = markdown(told), html(told)
    assert sentence in text and sentence in page
    assert (
        "no kernel is known to beat compile; one beats eager" in text
        and "no kernel is known to beat compile; one beats eager" in page
    )
    assert "judged again in full it is slower: 0.80× (0.70 to 0.90) against compile; 3.00× (2.70 to 3.30) against eager" in page
    assert "module as it is" not in text + page
    settings = replace(SETTINGS, baselines=("compile",))
    result = hand_over(
        tmp_path, events(), SUBJECT.task.id, SUBJECT, settings, None, second_best(), "all turns taken", "", "bottega check /x"
    )
    assert result.outcome == "none" and result.missed == sentence and result.claim == {}
    assert result.kept == "faster_than_eager.py" and result.kept_claim["eager"].low == 2.7
    assert (tmp_path / result.kept).read_text() == KERNEL and not (tmp_path / "optimized.py").exists()
    assert read_result(tmp_path).intact
    with pytest.raises(UsageError, match=r"no kernel that beats compile.*faster_than_eager\.py there beats eager only"):
        open_result(tmp_path)


def test_a_result_says_which_baseline_the_best_is() -> None:
    attempt = attempts_of(events(), SUBJECT.task.id)[1]
    verdict_of_best = against("best", best=(1.4, 1.3, 1.5), eager=(3.0, 2.7, 3.3), autotune=(1.4, 1.3, 1.5))
    told = told_of(FinalChoice(FinalKernel(attempt, Delivered(KERNEL, "load"), verdict_of_best)), "best")
    text = markdown(told)
    assert "a kernel that beats best" in text and "**1.40× (1.30 to 1.50)** against best (autotune)" in text
    assert "| against best | tokens |" in text


def test_a_kernel_that_is_faster_and_cannot_be_handed_over_is_not_called_slow() -> None:
    attempt = attempts_of(events(), SUBJECT.task.id)[1]
    found = FinalChoice(None, [RefusedKernel(attempt, "as a module in place of the original: it crashes", "eager")])
    sentence = missed(found, SETTINGS)
    assert (
        sentence == "A kernel surely beats eager, and cannot be handed over: as a module in place of the original: it crashes."
    )


def test_where_nothing_was_found_on_a_busy_machine_it_is_said() -> None:
    attempt = attempts_of(events(), SUBJECT.task.id)[1]
    calm = against("eager", eager=(1.1, 0.9, 1.4))
    busy = replace(calm, notes=(f"timing: the baseline waited for a core that others had (2 ms); {TIME_AGAIN}",))
    for verdict, told in ((calm, False), (busy, True)):
        refused = RefusedKernel(attempt, again_in_words(verdict, "eager"))
        assert ("run it again when it is idle" in missed(FinalChoice(None, [refused]), SETTINGS)) is told


def test_what_was_asked_for_and_could_not_be_run_is_not_claimed(tmp_path: Path) -> None:
    delivered(tmp_path)
    opened = open_result(tmp_path)
    opened = replace(opened, result=opened.result.model_copy(update={"baselines": ["compile"]}))
    finding = compared(opened, verdict_with(eager=(3.0, 2.7, 3.3)), "cpu")
    assert not finding.holds and "compile could not be run here" in finding.words and "against eager" in finding.words


def verdict_with(**speedups: tuple[float, float, float]) -> Verdict:
    return against(next(iter(speedups)), **speedups)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_text_stays_text_in_html() -> None:
    told = report_page(
        events(HOSTILE, HOSTILE), SUBJECT.task.id, SUBJECT, SETTINGS, settled(False, events(HOSTILE, HOSTILE)), HOSTILE, HOSTILE, "bottega check /x"
    )  # fmt: skip
    page = html(told)
    seen = Tags()
    seen.feed(page)
    assert not seen.tags & {"script", "img", "iframe", "object", "link", "a"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in seen.attributes)
    assert html_library.escape("<script>alert(1)</script>") in page
    assert "\x1b" not in page and "\u202e" not in page and "\x00" not in page
    assert "default-src" in page and "viewport" in page


def test_hostile_text_cannot_leave_its_fence_in_markdown() -> None:
    told = events(HOSTILE, HOSTILE)
    text = markdown(content(False, told))
    inside, fence = False, ""
    for line in text.splitlines():
        mark = re.match(r"`{3,}", line)
        if mark and not inside:
            inside, fence = True, mark[0]
        elif inside and line == fence:
            inside = False
        elif not inside:
            assert "<script>" not in line or "\\<script\\>" in line
            assert line != "# heading"
    assert not inside
    assert "\x1b" not in text and "\u202e" not in text


def test_an_endless_kernel_is_cut_in_the_report() -> None:
    changed = cut("\n".join(f"line {n}" for n in range(50_000)))
    assert changed.count("\n") <= MOST_LINES + 1 and "events.jsonl has all of it" in changed


def test_a_result_names_what_its_claim_rests_on(tmp_path: Path) -> None:
    result = delivered(tmp_path)
    assert read_result(tmp_path) == result and result.intact
    assert set(result.files) == {"original.py", "optimized.py", "verdict.json"}
    assert (tmp_path / "original.py").read_text() == MODULE
    assert Verdict.from_json(json.loads((tmp_path / "verdict.json").read_text())) == verdict()
    opened = open_result(tmp_path)
    assert opened.changed == () and opened.candidate.language == "cpp"
    assert opened.subject.task.id == SUBJECT.task.id and opened.subject.task.source == SUBJECT.task.source
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_result_from_before_authors_were_told_is_still_whole(tmp_path: Path) -> None:
    delivered(tmp_path)
    old = json.loads((tmp_path / "result.json").read_text())
    for later in ("author", "writers", "seal"):
        del old[later]
    seal = hashlib.sha256(json.dumps(old, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (tmp_path / "result.json").write_text(json.dumps({**old, "seal": seal}))
    assert read_result(tmp_path).intact and open_result(tmp_path).changed == ()
    (tmp_path / "result.json").write_text(json.dumps({**old, "seal": seal, "author": "somebody"}))
    assert not read_result(tmp_path).intact


def test_a_session_without_a_finding_leaves_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    delivered(tmp_path)
    result = delivered(tmp_path, found=False)
    assert result.outcome == "none" and not (tmp_path / "optimized.py").exists() and not (tmp_path / "verdict.json").exists()
    with pytest.raises(UsageError, match="no kernel that beats eager was found there"):
        open_result(tmp_path)


@pytest.mark.parametrize("name", ["original.py", "optimized.py", "verdict.json"])
def test_an_edited_file_is_named(tmp_path: Path, name: str) -> None:
    delivered(tmp_path)
    path = tmp_path / name
    path.write_text(path.read_text().replace("gain", "pain").replace("3.0", "9.0"))
    opened = open_result(tmp_path)
    assert opened.changed == (f"{name} was changed",)
    finding = compared(opened, verdict(), "cpu")
    assert not finding.holds and f"{name} was changed" in finding.words


def test_an_edited_claim_is_named(tmp_path: Path) -> None:
    delivered(tmp_path)
    path = tmp_path / "result.json"
    path.write_text(path.read_text().replace('"point": 3.0', '"point": 30.0'))
    assert open_result(tmp_path).changed == ("result.json was edited",)


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "result.json").unlink(), "no finished result is there"),
        (lambda folder: (folder / "optimized.py").unlink(), "optimized.py: cannot be read"),
        (lambda folder: replaced_by_a_pipe(folder / "optimized.py"), "optimized.py: cannot be read: it is no regular file"),
        (lambda folder: (folder / "result.json").write_text("{"), "no result of this version"),
        (lambda folder: (folder / "result.json").write_text("[]"), "no result of this version"),
        (lambda folder: (folder / "result.json").write_bytes(b"\xff\x00"), "no result of this version"),
        (lambda folder: (folder / "original.py").write_text("def ("), "does not parse"),
        (lambda folder: (folder / "original.py").write_bytes(b"\x00"), "a binary file"),
    ],
)
def test_what_cannot_be_checked_says_why(tmp_path: Path, damage: object, words: str) -> None:
    delivered(tmp_path)
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises((UsageError, TaskError), match=re.escape(words)):
        open_result(tmp_path)


def test_claims_are_compared_by_machine_and_by_their_intervals(tmp_path: Path) -> None:
    delivered(tmp_path)
    opened = open_result(tmp_path)
    assert compared(opened, verdict(3.1), "cpu").holds
    assert compared(opened, verdict(2.3), "cpu").holds, "sessions differ"
    less = compared(opened, verdict(1.5), "cpu")
    assert not less.holds and "surely less than 3.00× (2.70 to 3.30) was claimed" in less.words
    elsewhere = replace(verdict(1.5), fingerprint={**PRINTS, "cpu": "Another CPU"})
    assert compared(opened, elsewhere, "cpu").holds and "another machine" in compared(opened, elsewhere, "cpu").words
    for outcome in (Outcome.SLOWER, Outcome.AMBIGUOUS, Outcome.INCORRECT, Outcome.REJECTED):
        assert compared(opened, verdict(1.0, outcome), "cpu").holds is False
    wide = replace(verdict(2.0, Outcome.AMBIGUOUS), speedup={"eager": Speedup(2.0, 0.8, 18.0)})
    unsure = compared(opened, wide, "cpu")
    assert unsure.holds is None and "could not be told" in unsure.words


@pytest.mark.parametrize(
    "settings, own", [({"own_code": True}, True), ({"own_code": "yes"}, False), ([1], False), (None, False)]
)
def test_whatever_a_stranger_s_result_says_of_its_settings_is_read(settings: object, own: bool) -> None:
    assert judged_as_own({"settings": settings}) is own


def test_the_best_by_its_sure_end_is_tried_first_and_each_text_once() -> None:
    told = events()
    attempts = attempts_of(told, SUBJECT.task.id)
    unsure = replace(
        attempts[1].node.turn, source="another", verdict=Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(9.0, 0.8, 90.0)})
    )
    slow = replace(unsure, source="slow", verdict=verdict(0.5, Outcome.SLOWER))
    others = [
        replace(attempts[1], node=replace(attempts[1].node, id=name, turn=turn))
        for name, turn in (("c", unsure), ("d", attempts[1].node.turn), ("e", slow))
    ]
    assert [attempt.node.id for attempt in promising([*attempts, *others], "eager")] == ["s0r0t1", "c"]


def test_a_folder_that_takes_no_files_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BottegaError, match=r"cannot be written \(No such file or directory\)"):
        files.write(tmp_path / "missing" / "file", "x")
    (tmp_path / "taken").mkdir()
    with pytest.raises(BottegaError, match="cannot be written"):
        files.write(tmp_path / "taken", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    "told",
    [{}, {"problems": "x"}, {"problems": [], "guard_us": "1"}, {"problems": [], "guard_us": float("nan")}, {"problems": 0}],
)
def test_an_answer_of_the_probe_that_is_none_is_a_problem(told: dict[str, Any]) -> None:
    assert problems_of(told) == ["what was told of it cannot be read"]
    assert problems_of({"problems": [], "guard_us": 2.0}) == [] and problems_of({"problems": ["one\ntwo"]}) == ["one two"]
