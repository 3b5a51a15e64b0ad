"""Drafts in an episode: judged first, counted, told apart from the model's kernels, shown from the second turn on, and never drawn twice.

The judge is the fake that reads speeds off the text, and so is who draws (see `decay.py`); the compiler itself is used in
tests/data/test_drafts.py and tests/app/test_optimize_drafts.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from episodes.decay import TASK, answer, asked, episode_context, kernel

from bottega.core.draft import Draft, Drafts
from bottega.core.episode import Episode
from bottega.core.errors import TaskError
from bottega.core.event import Drafted, Wrote
from bottega.core.task import Task
from bottega.episodes.attempts import attempts_of, by_author, totals_of
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping


class Rule:
    """Draws these kernels, and counts how often it was asked."""

    def __init__(self, *sources: str, error: Exception | None = None) -> None:
        self.sources, self.error, self.calls = sources, error, 0

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Drafts("rule 1", tuple(Draft(source, "fused", "By rule.") for source in self.sources))


def run(
    folder: Path, answers: Any, rule: Rule, caps: BudgetCaps | None = None, model: bool = True, **settings: Any
) -> tuple[EpisodeContext, Episode]:
    context = episode_context(folder, answers, caps)
    context.draft_source = rule
    wanted = EpisodeSettings(**{"samples": 1, "turns": 2, "schemes": 0, "select": "none", "drafts": 2, **settings})
    with context.journal:
        return context, asyncio.run(run_episode(context, TASK, wanted, model=model))


def test_drafts_are_judged_first_and_are_nobody_elses(tmp_path: Path) -> None:
    rule = Rule(kernel(1.4), kernel(3.0, "the better"), kernel(9.0, "one too many"))
    context, episode = run(tmp_path, [answer(kernel(1.5)), answer(kernel(1.6))], rule)
    attempts = attempts_of(context.journal.events, TASK.id)
    assert [(one.node.id, one.author) for one in attempts] == [
        ("draft1", "rule 1"), ("draft2", "rule 1"), ("s0r0t0", "the model"), ("s0r0t1", "the model"),
    ]  # fmt: skip
    assert by_author(attempts) == {"rule 1": {"faster": 2}, "the model": {"faster": 2}}
    assert [one.node.id for one in attempts if one.node.by_rule] == ["draft1", "draft2"]
    assert context.judge.trusted == ["draft1", "draft2"], "what a model wrote is never taken for our own"  # type: ignore[union-attr]
    assert totals_of(context.journal.events).calls == 2 and context.budget.kernels == 4
    assert [len(trace.turns) for trace in episode.of("write")] == [2], "training must not take a draft for the model's"


def test_the_best_draft_is_shown_from_the_second_turn_on(tmp_path: Path) -> None:
    context, _ = run(tmp_path, [answer(kernel(1.5)), answer(kernel(1.6))], Rule(kernel(1.4), kernel(3.0, "the better")))
    first, second = (one.messages[-1].content for one in context.client.backbone.asked)  # type: ignore[attr-defined]
    assert "the better" not in first
    assert "the better" in second and "speed 1.5" in second and "speed 1.4" not in second
    assert "Best so far: attempt 1" in second


def test_a_run_that_goes_on_draws_and_judges_no_draft_again(tmp_path: Path) -> None:
    rule = Rule(kernel(1.4), kernel(3.0))
    run(tmp_path, [answer(kernel(1.5))], rule, BudgetCaps(kernels=3))
    context, _ = run(tmp_path, [answer(kernel(1.6))], rule, drafts=0)
    assert rule.calls == 1 and context.judge.judged == ["s0r0t1"]  # type: ignore[attr-defined]
    assert context.budget.kernels == 4, "drafts of an earlier session count too"


def test_drafts_count_against_the_budget_of_kernels(tmp_path: Path) -> None:
    context, episode = run(tmp_path, [], Rule(kernel(1.4), kernel(1.5)), BudgetCaps(kernels=1))
    assert "1 kernels" in episode.ended and asked(context) == 0
    assert [event.node for event in context.journal.events if isinstance(event, Wrote)] == ["draft1"]
    more, _ = run(tmp_path, [], Rule(), BudgetCaps(kernels=2))
    assert more.judge.judged == ["draft2"]  # type: ignore[attr-defined]


def test_a_draft_that_reaches_the_target_spares_the_model(tmp_path: Path) -> None:
    context, episode = run(tmp_path, [], Rule(kernel(4.0), kernel(5.0)), stopping=Stopping(target=2))
    assert episode.ended.startswith("target") and asked(context) == 0 and context.judge.judged == ["draft1"]  # type: ignore[attr-defined]


def test_drafts_set_the_mark_but_try_no_patience(tmp_path: Path) -> None:
    rule = Rule(kernel(4.0), kernel(3.0))
    context, episode = run(tmp_path, [answer(kernel(1.5))] * 4, rule, turns=4, stopping=Stopping(patience=1))
    assert asked(context) == 1 and episode.ended == "no progress in 1 kernels"


def test_whatever_happens_to_who_draws_the_model_writes(tmp_path: Path) -> None:
    context, episode = run(tmp_path, [answer(kernel(1.5))] * 2, Rule(error=RuntimeError("two\nlines")))
    (drafted,) = [event for event in context.journal.events if isinstance(event, Drafted)]
    assert drafted.text == "no draft: RuntimeError: two lines" and episode.ended == "all turns taken"
    assert asked(context) == 2


def test_nobody_is_asked_for_no_drafts(tmp_path: Path) -> None:
    rule = Rule(kernel(4.0))
    context, _ = run(tmp_path, [answer(kernel(1.5))] * 2, rule, drafts=0)
    assert rule.calls == 0 and not any(isinstance(event, Drafted) for event in context.journal.events)


def test_without_a_model_drafts_are_all_and_a_refusal_is_why_it_ended(tmp_path: Path) -> None:
    context, episode = run(tmp_path / "two", [], Rule(kernel(1.4), kernel(1.5)), model=False)
    assert [one.author for one in attempts_of(context.journal.events, TASK.id)] == ["rule 1", "rule 1"]
    assert asked(context) == 0 and episode.ended == "all drafts are judged"
    context, episode = run(tmp_path / "none", [], Rule(error=TaskError("cannot be traced")), model=False)
    assert asked(context) == 0 and "cannot be traced" in episode.ended
