"""An answer that is certain to fail is sampled again; every sample is paid for, and an attempt stays one kernel.

The judge is the fake that reads speeds off the text (see `decay.py`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import BROKEN, TASK, answer, asked, episode_context, kernel
from network_task import FORGETFUL, SMALL

from bottega.agents.answers.pipeline import DEPLOYMENT, TRAINING, AnswerPolicy
from bottega.backbone.chat import Message
from bottega.core.event import Wrote, from_json, to_json
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.episodes.attempts import totals_of
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.request import differences
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.writing import sampled

FAULTY = answer(kernel("compile_error") + "\n\ndef f():\n    return nowhere\n")
OTHER = FAULTY.replace("nowhere", "elsewhere")


def run(folder: Path, texts: Any, caps: BudgetCaps | None = None, **settings: Any) -> tuple[EpisodeContext, list[Turn]]:
    context = episode_context(folder, texts, caps)
    wanted = EpisodeSettings(**{"samples": 1, "turns": 1, "schemes": 0, "select": "none", "answers": DEPLOYMENT, **settings})
    with context.journal:
        asyncio.run(run_episode(context, TASK, wanted))
    return context, [event.turn for event in context.journal.events if isinstance(event, Wrote)]


def samplings(context: EpisodeContext) -> list[Any]:
    return [one.sampling for one in context.client.backbone.asked]  # type: ignore[attr-defined]


def test_the_first_answer_without_a_fault_is_judged_and_all_are_paid_for(tmp_path: Path) -> None:
    context, (turn,) = run(tmp_path, [FAULTY, BROKEN, answer(kernel(2.0)), answer(kernel(9.0))], temperature=0.0)
    assert turn.source == kernel(2.0) and turn.redrawn == 2 and context.judge.judged == ["s0r0t0"]  # type: ignore[attr-defined]
    assert [one.temperature for one in samplings(context)] == [0.0, 0.7, 0.7]
    assert len({one.seed for one in samplings(context)}) == 3
    alone, (only,) = run(tmp_path / "alone", [answer(kernel(2.0))])
    assert turn.prompt_tokens == 3 * only.prompt_tokens and turn.output_tokens > only.output_tokens
    assert (
        context.budget.tokens == turn.prompt_tokens + turn.output_tokens and context.budget.kernels == alone.budget.kernels == 1
    )
    assert totals_of(context.journal.events).calls == 3


def test_where_every_draw_has_a_fault_the_first_is_judged(tmp_path: Path) -> None:
    context, (turn,) = run(tmp_path, [FAULTY, OTHER, OTHER, OTHER, answer(kernel(2.0))])
    assert asked(context) == 4 and turn.redrawn == 3 and "nowhere" in turn.source
    assert context.judge.judged == ["s0r0t0"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("caps", "settings"), [(None, {"answers": TRAINING}), (BudgetCaps(tokens=10), {})])
def test_nothing_is_drawn_again_unasked_or_unpaid(
    tmp_path: Path, caps: BudgetCaps | None, settings: dict[str, AnswerPolicy]
) -> None:
    context, (turn,) = run(tmp_path, [FAULTY, answer(kernel(2.0))], caps, **settings)
    assert asked(context) == 1 and turn.redrawn == 0 and "nowhere" in turn.source


def test_the_last_kernel_of_a_budget_may_be_drawn_again(tmp_path: Path) -> None:
    _, (turn,) = run(tmp_path, [FAULTY, answer(kernel(2.0))], BudgetCaps(kernels=1))
    assert turn.source == kernel(2.0)


def test_a_model_that_falls_silent_between_draws_leaves_what_it_gave(tmp_path: Path) -> None:
    _, (turn,) = run(tmp_path, [FAULTY])
    assert turn.redrawn == 0 and "nowhere" in turn.source


def test_a_run_that_goes_on_counts_what_its_draws_took(tmp_path: Path) -> None:
    first, _ = run(tmp_path, [FAULTY, answer(kernel(2.0))])
    second, _ = run(tmp_path, [])
    assert asked(second) == 0 and second.budget.tokens == first.budget.tokens


def test_logs_and_settings_from_before_still_read(tmp_path: Path) -> None:
    context, _ = run(tmp_path, [answer(kernel(2.0))])
    (wrote,) = [event for event in context.journal.events if isinstance(event, Wrote)]
    old = to_json(wrote)
    del old["turn"]["redrawn"], old["turn"]["repairs"]
    assert from_json(old) == wrote
    assert [EpisodeSettings(answers=policy).to_json()["redraws"] for policy in (TRAINING, DEPLOYMENT)] == [0, 3]
    assert EpisodeSettings(answers=DEPLOYMENT).to_json()["answers"] is None, "it follows from the number of resamples"
    kept = EpisodeSettings(answers=DEPLOYMENT.without("syntax")).to_json()["answers"]["lint"]
    assert kept == tuple(name for name in DEPLOYMENT.lint if name != "syntax")
    assert differences({"redraws": 0}, {"redraws": 3}) == ["redraws 0 then, 3 now"]


@pytest.mark.parametrize("strategy", ["parallel", "serial"])
def test_the_first_of_several_answers_can_be_the_likeliest_one(tmp_path: Path, strategy: str) -> None:
    several = [answer(kernel(float(speed))) for speed in (2, 3, 4, 5)]
    context, turns = run(tmp_path, several, strategy=strategy, samples=2, turns=2, temperature=0.8, likeliest_first=True)
    assert len(turns) == 4
    assert sorted(one.temperature for one in samplings(context)) == [0.0, 0.8, 0.8, 0.8]
    assert {event.node for event in context.journal.events if isinstance(event, Wrote)} >= {
        "s0p0" if strategy == "parallel" else "s0r0t0"
    }


@pytest.mark.parametrize(("policy", "repairs"), [(DEPLOYMENT, ("networks",)), (TRAINING, ())])
def test_repairs_stand_in_the_turn(tmp_path: Path, policy: AnswerPolicy, repairs: tuple[str, ...]) -> None:
    """A network whose answer forgets a kind of layer; training sees its own mistakes."""
    task = Task(SMALL, "network")
    settings = EpisodeSettings(style="terse", language="triton", answers=policy)
    context = episode_context(tmp_path, [answer(FORGETFUL)])
    with context.journal:
        turn = asyncio.run(sampled(context, task, settings, "s0r0t0", [Message("user", "a task")]))
    assert turn.repairs == repairs and turn.redrawn == 0
    assert ("is nn.Linear" in turn.source) == bool(repairs)
    assert "nn.Linear" not in turn.text  # what the model said stays
