"""The scientist: plans with predictions, a notebook that compares them with measurements, and nothing but times. The judge is a fake (`decay.py`)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import FakeJudge, answer, asked, episode_context, kernel, search, searched
from skills.skill_cards import card

from bottega.agents import scientist as agent
from bottega.agents.answers.answer import AnswerError
from bottega.agents.scientist import Experiment
from bottega.backbone.chat import Message, Sampling
from bottega.core.candidate import Candidate
from bottega.core.event import Planned, Wrote
from bottega.core.skill import Relations, Skill
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.page import ReportTable
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.journal import read_events
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies.notebook import NotebookEntry, prediction_error
from bottega.episodes.strategies.scientist import AVENUES, chosen
from bottega.episodes.writing import EpisodeSearch


class TimingJudge(FakeJudge):
    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        assert not options  # no profile
        return await super().judge_async(task, candidate)


class Lab:
    """Kernels and plans in their order."""

    def __init__(self, kernels: Sequence[str], plans: Sequence[str]) -> None:
        self.kernels, self.plans = iter(kernels), iter(plans)
        self.planned: list[str] = []
        self.written: list[str] = []

    def __call__(self, messages: Sequence[Message], sampling: Sampling) -> str:
        if "plan experiments" in messages[0].content:
            self.planned.append(messages[-1].content)
            return next(self.plans)
        self.written.append(messages[-1].content)
        return next(self.kernels)


def plan(*rows: dict[str, Any]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def run(
    folder: Path,
    lab: Lab,
    rounds: int,
    samples: int = 1,
    caps: BudgetCaps | None = None,
    schemes: Sequence[tuple[Skill, ...]] = ((),),
) -> EpisodeSearch:
    context = episode_context(folder, lab, caps)
    context.judge = TimingJudge()
    return searched(search(context, EpisodeSettings(strategy="scientist", samples=samples, turns=rounds), schemes))


KERNELS = [answer(kernel(1.0, "first")), answer(kernel(2.0, "second")), answer(kernel("incorrect", "third"))]
PLANS = [
    plan({"base": "x0n0", "change": "share the loop among threads", "predict": 1.5, "novelty": 3}),
    plan({"base": "x1n0", "reference": "x0n0", "change": "vectorise the inner loop", "predict": 1.2, "novelty": 1}),
]


def test_predictions_are_compared_with_measurements_and_shown_to_the_next_plan(tmp_path: Path) -> None:
    lab = Lab(KERNELS, PLANS)
    place = run(tmp_path, lab, 3)
    assert [node.parent for node in place.nodes] == [None, "x0n0", "x1n0"]
    assert "(empty)" in lab.planned[0] and "x0n0: 1.00x of eager" in lab.planned[0]
    assert (
        "- x1n0 from x0n0: share the loop among threads (predicted 1.50x, measured 2.00x; more than predicted)"
        in lab.planned[1]
    )
    assert "share the loop among threads" in lab.written[1] and "share the loop" not in lab.written[0]
    assert "vectorise the inner loop" in lab.written[2]
    assert "# speed 1.0" in lab.written[2] and "# speed 2.0" in lab.written[2]  # reference and base


def test_the_report_has_the_notebook(tmp_path: Path) -> None:
    place = run(tmp_path, Lab(KERNELS, PLANS), 3)
    (table,) = search_blocks(list(read_events(tmp_path)), place.episode, place.settings)
    assert isinstance(table, ReportTable) and table.title == "The notebook"
    assert [row[3:] for row in table.rows] == [
        ("1.50×", "2.00×", "more than predicted"),
        ("1.20×", "none", "failed: incorrect"),
    ]
    assert "1.33" in table.caption


def test_a_resumed_lab_plans_and_writes_nothing_twice(tmp_path: Path) -> None:
    run(tmp_path, Lab(KERNELS, PLANS), 3, caps=BudgetCaps(kernels=2))
    rest = Lab(KERNELS[2:], PLANS[1:])
    place = run(tmp_path, rest, 3)
    assert (len(rest.planned), len(rest.written)) == (1, 1)
    assert asked(place.context) == 2
    turns = [event.turn for event in read_events(tmp_path) if isinstance(event, Planned | Wrote)]
    assert place.context.budget.tokens == sum(turn.prompt_tokens + turn.output_tokens for turn in turns if turn)


def test_a_plan_that_cannot_be_read_is_replaced_by_avenues_without_prediction(tmp_path: Path) -> None:
    lab = Lab(KERNELS, ["I have no idea.", "None."])
    run(tmp_path, lab, 3)
    plans = [event for event in read_events(tmp_path) if isinstance(event, Planned)]
    assert [event.experiments[0]["change"] for event in plans] == list(AVENUES[:2])
    assert all(event.turn.fault for event in plans if event.turn)
    assert AVENUES[0] in lab.written[1] and "no prediction" in lab.planned[1]


def test_a_plan_sees_cards_in_the_order_of_their_steps_and_falls_back_on_them(tmp_path: Path) -> None:
    threads = replace(card("threads"), relations=Relations(provides=("threads",)))
    chunks = replace(card("chunks"), relations=Relations(requires=("threads",), provides=("schedule",)))
    alone = replace(card("alone"), relations=Relations(provides=("alone",), conflicts=("threads",)))
    lab = Lab(KERNELS, ["I have no idea.", "None."])
    run(tmp_path, lab, 3, schemes=[(), (chunks, threads), (alone,)])
    shown = lab.planned[0]
    assert shown.index("- threads:") < shown.index("- chunks:") and "It requires threads." in shown
    assert "- alone:" not in shown, "it conflicts with what is there"
    plans = [event for event in read_events(tmp_path) if isinstance(event, Planned)]
    assert [event.experiments[0]["change"].partition(":")[0] for event in plans] == ["threads", "chunks"]


def test_the_most_promising_experiments_are_run_and_the_newest_one() -> None:
    planned = [
        Experiment("a", "", "one", 1.1, 2.0),
        Experiment("a", "", "two", 1.5, 0.0),
        Experiment("a", "", "three", None, 9.0),
        Experiment("a", "", "four", 1.4, 1.0),
    ]
    assert [one.change for one in chosen(planned, 1)] == ["two"]
    assert [one.change for one in chosen(planned, 3)] == ["two", "four", "three"]


def test_several_experiments_of_a_plan_run_side_by_side(tmp_path: Path) -> None:
    rows = [{"base": "x0n0", "change": f"change {n}", "predict": 1 + n / 10, "novelty": 9 - n} for n in range(4)]
    kernels = [answer(kernel(1.0 + n / 10, f"kernel {n}")) for n in range(4)]
    run(tmp_path, Lab(kernels, [plan(*rows)]), 2, samples=2)
    (event,) = [event for event in read_events(tmp_path) if isinstance(event, Planned)]
    assert [(row["node"], row["change"]) for row in event.experiments] == [
        ("x1n0", "change 3"),
        ("x1n1", "change 0"),
        ("", "change 1"),
        ("", "change 2"),
    ]


@pytest.mark.parametrize(
    "predicted, measured, finding",
    [
        (1.3, 1.25, "as predicted"),
        (1.3, 1.0, "less than predicted"),
        (1.3, 0.8, "the opposite"),
        (None, 0.8, "nothing was predicted"),
        (1.3, None, "failed: timeout"),
    ],
)
def test_how_a_prediction_fared(predicted: float | None, measured: float | None, finding: str) -> None:
    assert NotebookEntry("b", "a", "change", predicted, measured, "timeout").finding == finding


def test_the_error_of_predictions_is_a_geometric_mean() -> None:
    entries = [NotebookEntry("b", "a", "", 2.0, 1.0, "right"), NotebookEntry("b", "a", "", 1.0, 2.0, "right")]
    assert prediction_error(entries) == pytest.approx(2.0)
    assert prediction_error([NotebookEntry("b", "a", "", None, 1.0, "right")]) is None


def test_plans_are_read_in_whatever_form_they_come() -> None:
    text = (
        '<think>{"change": "no"}</think>Sure:\n```json\n[{"base": "b", "reference": "b", "change": "x", "predict": "1.5x"},\n'
    )
    text += ' {"base": "nobody", "change": "y", "predict": 1e9, "novelty": 50}, {"change": ""}, {"change": "x"}]\n```'
    assert agent.parse(text, ["a", "b"], 5) == [Experiment("b", "", "x", 1.5, 0.0), Experiment("a", "", "y", None, 10.0)]
    for wrong in ("", "nothing", '{"base": "a"}'):
        with pytest.raises(AnswerError):
            agent.parse(wrong, ["a"], 5)


@pytest.mark.parametrize("text", ["{" * 300_000, '{"a":' * 60_000])
def test_a_plan_of_brackets_alone_takes_no_time(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(AnswerError):
        agent.parse(text, ["a"], 5)
    assert time.monotonic() - begun < 5
