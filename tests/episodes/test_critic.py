"""Writer and critic in turns: who sees what, in both modes. Without the critic's turn, or without its profile, a test here fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import FakeJudge, answer, episode_context, kernel, search, searched

from bottega.agents import critic
from bottega.agents.answers.answer import AnswerError
from bottega.backbone.chat import Message, Sampling
from bottega.core.candidate import Candidate
from bottega.core.event import Criticised
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.attempts import totals_of
from bottega.episodes.delivery.page import ReportTable
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.journal import read_events
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.writing import EpisodeSearch

ADVICE = "problem: one of eight cores is busy\nmethod: threads\nplan: share the loop over rows"


class ProfilingJudge(FakeJudge):
    """A verdict that asks for a profile gets one."""

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        verdict = await super().judge_async(task, candidate, **options)
        profile = {"threads": 1.0, "kernels": [{"name": "decay", "us": 5.0}]} if options.get("profile") else {}
        return Verdict.from_json({**verdict.to_json(), "profile": profile})


class Script:
    """Answers of the writer in their order, and always the same advice of the critic."""

    def __init__(self, kernels: Sequence[str], advice: str = ADVICE) -> None:
        self.kernels, self.advice = iter(kernels), advice
        self.written: list[str] = []
        self.criticised: list[str] = []

    def __call__(self, messages: Sequence[Message], sampling: Sampling) -> str:
        text = messages[-1].content
        if "review" in messages[0].content:
            self.criticised.append(text)
            return self.advice
        self.written.append(text)
        return next(self.kernels)


def grown(folder: Path, script: Script, turns: int) -> EpisodeSearch:
    context = episode_context(folder, script)
    context.judge = ProfilingJudge()
    return searched(search(context, EpisodeSettings(strategy="critic", samples=1, turns=turns)))


def test_the_critic_sees_kernel_verdict_and_profile_and_the_writer_its_advice(tmp_path: Path) -> None:
    script = Script([answer(kernel(1.5, "first")), answer(kernel(2.0, "second"))])
    place = grown(tmp_path, script, 2)
    assert len(place.nodes) == 2
    (seen,) = script.criticised
    assert "# speed 1.5" in seen
    assert "threads: 1.0" in seen
    assert "kernel name decay, us 5.0" in seen
    assert "What makes it faster?" in seen
    assert "Change this next" not in script.written[0]
    assert (
        "Change this next. Problem: one of eight cores is busy Method: threads Plan: share the loop over rows"
        in script.written[1]
    )


def test_a_kernel_that_fails_is_to_be_corrected_first(tmp_path: Path) -> None:
    script = Script([answer(kernel("incorrect")), "no kernel at all", answer(kernel(2.0, "third"))])
    grown(tmp_path, script, 3)
    assert [("right?" in text, "faster?" in text) for text in script.criticised] == [(True, False), (True, False)]
    assert all("Change this next" in text for text in script.written[1:])


def test_a_worse_kernel_is_not_built_upon(tmp_path: Path) -> None:
    script = Script([answer(kernel(2.0, "good")), answer(kernel(1.1, "bad")), answer(kernel(2.5, "better"))])
    grown(tmp_path, script, 3)
    assert "# speed 2.0" in script.criticised[1]
    assert "# speed 1.1" not in script.criticised[1] + script.written[2]


def test_the_writer_sees_one_kernel_alone(tmp_path: Path) -> None:
    script = Script([answer(kernel(1.2, "first")), answer(kernel(1.6, "second")), answer(kernel(2.5, "third"))])
    grown(tmp_path, script, 3)
    assert "# speed 1.6" in script.written[2]
    assert "# speed 1.2" not in script.written[2], "old advice and new must not quarrel"


def test_advice_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    script = Script([answer(kernel(1.5, "first")), answer(kernel(2.0, "second"))], advice="Looks good to me.")
    assert len(grown(tmp_path, script, 2).nodes) == 2
    assert "Change this next" not in script.written[1]
    (event,) = [event for event in read_events(tmp_path) if isinstance(event, Criticised)]
    assert event.turn.fault
    assert not event.advice


def test_the_report_has_what_the_critic_said_and_what_came_of_it(tmp_path: Path) -> None:
    for name, advice, told in (
        ("read", ADVICE, "Problem: one of eight"),
        ("unread", "Looks good to me.", "(not used: wrong_form"),
    ):
        place = grown(tmp_path / name, Script([answer(kernel(1.5, "a")), answer(kernel(2.0, "b"))], advice), 2)
        (block,) = search_blocks(list(read_events(tmp_path / name)), place.episode, place.settings)
        assert isinstance(block, ReportTable)
        ((of, mode, said, written, came),) = block.rows
        assert (of, mode, written) == ("s0r0t0", "speed", "s0r0t1")
        assert said.startswith(told)
        assert came.startswith("2.00")


def test_a_resumed_search_asks_the_critic_nothing_twice_and_counts_its_tokens(tmp_path: Path) -> None:
    script = Script([answer(kernel(1.5, "first")), answer(kernel(2.0, "second"))])
    grown(tmp_path, script, 2)
    again = Script([])
    place = grown(tmp_path, again, 2)
    assert not again.criticised
    assert not again.written
    events = list(read_events(tmp_path))
    turns = [event.turn for event in events if getattr(event, "turn", None) is not None]
    assert len(turns) == 3
    assert totals_of(events).tokens == sum(turn.prompt_tokens + turn.output_tokens for turn in turns)
    assert place.context.budget.tokens == totals_of(events).tokens


@pytest.mark.parametrize("text", ["", "none", "problem: it is slow", "method:", "```python\nx = 1\n```"])
def test_what_names_nothing_to_do_is_no_advice(text: str) -> None:
    with pytest.raises(AnswerError):
        critic.parse(text)


def test_advice_is_read_in_whatever_wrapping_it_comes() -> None:
    text = f"<think>hm</think>\n**Problem:** one core\n- **Method**: threads\n> plan : rows {'x' * 500}"
    told = critic.parse(text)
    assert told.startswith("Problem: one core Method: threads Plan: rows")
    assert len(told) < 400


def test_hardware_counters_are_one_line_of_the_profile() -> None:
    profile = {
        "gbs": 5.0,
        "counters": {"dram_pct": 31.2, "l2_hit_pct": 80.0},
        "not_counted": None,
        "kernels": [],
        "call_us": None,
    }
    assert critic.profile_text(profile) == "gbs: 5.0\ncounters dram_pct 31.2, l2_hit_pct 80"
    assert critic.profile_text({"counters": {}, "not_counted": "the driver counts for root alone"}) == ""
