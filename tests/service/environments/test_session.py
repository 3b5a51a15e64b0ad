"""Sessions: prompts, feedback, rewards and ends, over a scripted judge; one real verdict at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripted_judge import KERNEL, ROOT, ScriptedJudge, faster, lost, wrong

from bottega.core.errors import JudgeError, UsageError
from bottega.core.trial import GainInterval
from bottega.core.verdict import Outcome, Verdict
from bottega.service.environments.factory import SessionFactory, chat, factory_for
from bottega.service.environments.settings import EnvironmentSettings
from bottega.skills.gate import Decision
from bottega.skills.library import Library
from bottega.skills.shipped import begin_library

ROW = {"task": "builtin:star_relu"}


def factory(judge: ScriptedJudge, library: Library | None = None, **settings: object) -> SessionFactory:
    return SessionFactory(EnvironmentSettings.model_validate({"style": "full", **settings}), judge, library)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path / "library")
    begin_library(made)
    return made


def test_the_prompt_is_the_writers_and_shows_the_task() -> None:
    made = factory(ScriptedJudge([]))
    task = made.task_of(ROW)
    system, user = made.writer(task).messages
    assert (system.role, user.role) == ("system", "user")
    assert "class Model" in user.content and "ModelNew" in system.content


def test_turns_earn_what_the_named_reward_says_and_the_best_is_the_score() -> None:
    made = factory(ScriptedJudge([wrong(), faster(2.0), faster(1.5)]), turns=3, reward="kevin")
    session = made.writer(made.task_of(ROW))
    first = session.submit(KERNEL)
    assert first.reward == 0 and not first.done
    assert "Element 3" in first.feedback and "tf32" in first.feedback
    assert "Element 3" in session.messages[1].content  # whoever asks anew sees it too
    assert session.submit(KERNEL).reward == pytest.approx(2.3)
    feedback, reward, done = session.submit(KERNEL)
    assert "1.50x" in feedback and reward == pytest.approx(1.8) and done
    assert session.score == pytest.approx(2.3)
    with pytest.raises(UsageError, match="over"):
        session.submit(KERNEL)


def test_the_sum_of_turns_may_count_instead() -> None:
    made = factory(ScriptedJudge([faster(1.0), faster(1.0)]), turns=2, reward="kevin", returns="sum", gamma=0.5)
    session = made.writer(made.task_of(ROW))
    session.submit(KERNEL)
    session.submit(KERNEL)
    assert session.score == pytest.approx(1.3 + 0.5 * 1.3)


def test_an_answer_without_a_kernel_is_told_so_and_not_judged() -> None:
    judge = ScriptedJudge([])
    made = factory(judge, turns=2)
    session = made.writer(made.task_of(ROW))
    step = session.submit("I would rather not.")
    assert step.reward == 0 and not step.done and "no_code" in step.feedback
    assert not judge.asked and session.facts()["outcome"] == "unusable_answer"


def test_a_lost_judge_costs_nothing_and_the_text_may_come_again() -> None:
    made = factory(ScriptedJudge([lost(), faster(2.0)]), turns=1)
    session = made.writer(made.task_of(ROW))
    with pytest.raises(JudgeError):
        asyncio.run(session.submit_async(KERNEL))
    assert session.score is None and not session.done
    assert asyncio.run(session.submit_async(KERNEL)).done


def test_a_task_that_cannot_be_judged_ends_the_session_without_a_reward() -> None:
    made = factory(ScriptedJudge([Verdict(Outcome.INVALID_TASK, diagnosis="it raises")]), turns=3)
    session = made.writer(made.task_of(ROW))
    step = session.submit(KERNEL)
    assert step.reward is None and step.done and session.score is None


def test_a_selector_chooses_and_is_credited_with_what_was_written(library: Library) -> None:
    made = factory(ScriptedJudge([faster(2.0)]), library)
    task = made.task_of(ROW)
    session = made.selector(task)
    assert session is not None
    name = session.offered[0].name
    assert name in session.messages[1].content
    step = session.submit(f"{name}: it fits\nno_such_card: either")
    assert step == (f"chosen: {name}", None, True)
    writer = made.writer(task, session.chosen)
    assert session.chosen[0].technique[:40] in writer.messages[1].content
    assert session.credit([2.0, None, 4.0]) == 3.0
    assert session.credit([None]) is None


def test_without_cards_there_is_no_selector() -> None:
    made = factory(ScriptedJudge([]))
    assert made.selector(made.task_of(ROW)) is None


def test_a_summariser_sees_a_clear_advance_and_is_credited_by_the_gate() -> None:
    made = factory(ScriptedJudge([faster(1.0), faster(2.0)]), turns=2)
    session = made.writer(made.task_of(ROW))
    session.submit(KERNEL)
    assert made.summariser([session]) is None
    session.submit(KERNEL)
    summariser = made.summariser([session])
    assert summariser is not None and "2.00" in summariser.messages[1].content
    assert summariser.submit("none").reward == 0.0
    gain = GainInterval(1.5, 1.2, 1.8)
    assert summariser.credit([Decision("admit", "", gain)]) == pytest.approx(0.5)
    assert summariser.credit([Decision("refuse", "", gain)]) == 0.0


def test_rows_carry_the_task_and_its_prompt() -> None:
    made = factory(ScriptedJudge([]))
    (row,) = made.rows(["builtin:star_relu"])
    assert row["prompt"] == chat(made.writer(made.task_of(row)).messages)
    with pytest.raises(UsageError, match="source"):
        made.task_of({})


def test_equal_settings_share_one_factory() -> None:
    assert factory_for({"turns": 7}) is factory_for(EnvironmentSettings(turns=7))
    with pytest.raises(ValueError, match="rewrad"):
        factory_for({"rewrad": "kevin"})


@pytest.mark.slow
def test_a_real_verdict() -> None:
    kernel = (ROOT / "examples/star_relu.py").read_text()
    with SessionFactory(EnvironmentSettings(turns=1)) as made:
        session = made.writer(made.task_of(ROW))
        step = session.submit(f"```python\n{kernel}\n```")
    assert step.done and step.reward is not None and step.reward > 0.5, step.feedback
