"""Checks of a user's own: they may reject what the judge accepts, and never accept what it does not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.decide import decide
from bottega.judge.settings import Settings

TASK = Task("class Model: ...", name="task")
CANDIDATE = Candidate("class ModelNew: pass  # TODO", "torch")
RIGHT: dict[str, Any] = {"trials": [{"skipped": False, "problem": "", "errors": [], "variant": "plain"}]}
WRONG = {"trials": [{"skipped": False, "problem": "off by one", "errors": [], "variant": "plain"}], "problem": "off by one"}
ASKED: list[Verdict] = []


def finished(task: Task, candidate: Candidate, verdict: Verdict) -> str | None:
    ASKED.append(verdict)
    return "the text says TODO" if "TODO" in candidate.source else None


def content(task: Task, candidate: Candidate, verdict: Verdict) -> str | None:
    return None


def broken(task: Task, candidate: Candidate, verdict: Verdict) -> str | None:
    raise KeyError("nothing")


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("my_rules")
    made.finished, made.content, made.broken = finished, content, broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_rules", made)
    ASKED.clear()


def verdict(found: dict[str, Any], *names: str) -> Verdict:
    return decide(TASK, CANDIDATE, Settings(checks=tuple(f"my_rules:{name}" for name in names)), found)


def test_a_check_rejects_what_was_accepted_and_its_words_are_in_the_verdict() -> None:
    assert verdict(RIGHT).outcome.accepted and verdict(RIGHT, "content").outcome.accepted
    rejected = verdict(RIGHT, "content", "finished")
    assert rejected.outcome is Outcome.REJECTED and rejected.correct and rejected.speedup == {}
    assert [(one.name, one.detail) for one in rejected.violations] == [("finished", "the text says TODO")]
    assert "the text says TODO" in rejected.diagnosis
    assert [asked.outcome.accepted for asked in ASKED] == [True]


def test_what_is_wrong_stays_so_whatever_a_check_says() -> None:
    assert verdict(WRONG, "content", "finished").outcome is Outcome.INCORRECT
    assert not ASKED


def test_a_check_that_fails_gives_no_verdict() -> None:
    with pytest.raises(JudgeError, match="the check my_rules:broken failed on candidate: KeyError: 'nothing'"):
        verdict(RIGHT, "broken")


def test_a_name_that_can_be_none_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="unknown check 'tidy'; use module:Name"):
        Settings(checks=("tidy",))
