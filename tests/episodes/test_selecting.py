"""Selection of skills and whole episodes, with a real library and scripted answers: schemes, unknown names, summaries, resumption.

The judge is the fake of `decay.py`, which reads speeds off the text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import DEVICE, TASK, FakeJudge, answer, asked, episode_context, kernel

from bottega.backbone.chat import Message, Sampling
from bottega.core.episode import Episode
from bottega.core.event import EpisodeEnded, Selected, Summarised, Wrote
from bottega.core.skill import AppliesTo, Conditions, Relations, Skill, SkillState
from bottega.core.task import Task
from bottega.episodes.attempts import attempts_of, by_outcome, seconds_of, totals_of
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import EpisodeJournal, read_events
from bottega.episodes.selecting import retrieve
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.library import Library
from bottega.skills.query import query_for
from bottega.skills.retrieve import Filter


def card(name: str) -> Skill:
    conditions = Conditions("float32 in and out.", "rows are contiguous.", "none", "none", "none")
    technique = "Keep the running value of the recurrence in a register and walk over time in one loop."
    failures = ("A carried value in double precision costs twice.",)
    return Skill(
        name, f"{name}: run a recurrence over time in one loop.", "general", ("scan",), ("cpp",), ("cpu",), conditions,
        "A Python loop over time steps with stack at its end.", technique, "for (t = 0; t < steps; ++t) h = rate * h + x[t];",
        "One pass instead of many.", failures, state=SkillState.ADMITTED,
    )  # fmt: skip


PROPOSAL = {
    **{name: value for name, value in card("carry_in_register").content().items() if name != "schema"},
    "intent": "Carry the state of a recurrence in a register over all steps.",
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library(tmp_path / "library") as opened:
        opened.add_many([card("one_loop_over_time"), card("stack_in_place")])
        yield opened


def role(messages: Any) -> str:
    """Which of the three is asked, by what only its prompt holds."""
    text = "\n".join(message.content for message in messages)
    if "First attempt" in text:
        return "summarise"
    return "select" if "one_loop_over_time" in text and "stack_in_place" in text and "ModelNew" not in text else "write"


class Actor:
    """A script that knows which role it plays."""

    def __init__(self, select: str, write: list[str], summarise: str = "none") -> None:
        self.select, self.write, self.summarise = select, list(write), summarise
        self.roles: list[str] = []

    def __call__(self, messages: list[Message], sampling: Sampling) -> str:
        played = role(messages)
        self.roles.append(played)
        if played == "write":
            return self.write.pop(0)
        return self.select if played == "select" else self.summarise


def run(context: EpisodeContext, settings: EpisodeSettings) -> Episode:
    with context.journal:
        return asyncio.run(run_episode(context, TASK, settings))


SETTINGS = EpisodeSettings(samples=1, turns=1, schemes=1)


def test_a_selected_skill_is_in_the_writers_prompt_and_in_the_trace(tmp_path: Path, library: Library) -> None:
    actor = Actor("one_loop_over_time: it has a recurrence", [answer(kernel(1.1)), answer(kernel(1.4))])
    context = episode_context(tmp_path / "run", actor, library=library)
    episode = run(context, SETTINGS)
    assert episode.schemes == ((), ("one_loop_over_time",))
    assert set(episode.retrieved) == {"one_loop_over_time", "stack_in_place"}
    written = [question for question in context.client.backbone.asked if role(question.messages) == "write"]  # type: ignore[attr-defined]
    shown = ["register" in "".join(message.content for message in question.messages) for question in written]
    assert shown == [False, True]
    assert [trace.role for trace in episode.traces] == ["select", "write", "write"]


@pytest.mark.parametrize("said", ["magic_wand: it always helps", "", "[{]", "x" * 20_000, "none"])
def test_a_selector_that_names_nothing_real_selects_nothing(tmp_path: Path, library: Library, said: str) -> None:
    context = episode_context(tmp_path / "run", Actor(said, [answer(kernel(1.1)), answer(kernel(1.4))]), library=library)
    episode = run(context, SETTINGS)
    assert episode.schemes == ((), ())
    (event,) = [event for event in context.journal.events if isinstance(event, Selected)]
    assert event.turn is not None and event.names == ()
    assert bool(event.turn.fault) == (said != "none"), "only a word for nothing is a choice of nothing"


def test_a_task_without_cards_has_as_many_rollouts_where_groups_are_compared(tmp_path: Path) -> None:
    with Library(tmp_path / "library") as library:
        settings = replace(SETTINGS, schemes=3, samples=1, turns=1, even_groups=True)
        context = episode_context(tmp_path / "run", Actor("none", [answer(kernel(1.1))] * 4), library=library)
        episode = run(context, settings)
    assert episode.schemes == ((), (), (), ())
    assert len(episode.of("write")) == 4


def test_the_retrievals_order_has_groups_as_large_as_a_selectors_where_groups_are_compared(
    tmp_path: Path, library: Library
) -> None:
    for even, schemes in ((True, 4), (False, 2)):
        settings = replace(SETTINGS, schemes=3, select="bm25", even_groups=even)
        context = episode_context(tmp_path / f"run{even}", Actor("", [answer(kernel(1.1))] * schemes), library=library)
        episode = run(context, settings)
        assert len(episode.of("write")) == len(episode.schemes) == schemes and not episode.of("select")
        assert len(set(episode.schemes[1:])) == 1 and episode.schemes[0] == ()


def test_proposed_cards_are_offered_only_where_that_is_asked_for(tmp_path: Path) -> None:
    with Library(tmp_path / "library") as library:
        library.add(replace(card("one_loop_over_time"), state=SkillState.PROPOSED))
        for unproved, offered in ((False, ()), (True, ("one_loop_over_time",))):
            settings = replace(SETTINGS, unproved=unproved, select="bm25")
            context = episode_context(tmp_path / f"run{unproved}", Actor("", [answer(kernel(1.1))] * 2), library=library)
            assert run(context, settings).retrieved == offered


def test_without_a_library_nobody_selects(tmp_path: Path) -> None:
    actor = Actor("", [answer(kernel(1.1))])
    episode = run(episode_context(tmp_path / "run", actor), replace(SETTINGS, select="none", schemes=0))
    assert episode.schemes == ((),) and actor.roles == ["write"]


def test_a_clear_gain_is_summarised_into_cards(tmp_path: Path, library: Library) -> None:
    actor = Actor("none", [answer(kernel(1.1)), answer(kernel(1.6))], json.dumps([PROPOSAL, {"name": "Bad Name"}]))
    settings = replace(SETTINGS, turns=2, summaries=1, schemes=0)
    context = episode_context(tmp_path / "run", actor, library=library)
    episode = run(context, settings)
    assert [skill.name for skill in episode.proposals] == ["carry_in_register"]
    assert episode.proposals[0].state is SkillState.PROPOSED
    (event,) = [event for event in context.journal.events if isinstance(event, Summarised)]
    assert len(event.refused) == 1


@pytest.mark.parametrize(
    ("speeds", "asks"), [((1.1, 1.2), False), (("incorrect", 1.9), False), ((0.3, 0.9), False), ((1.1, 1.9), True)]
)
def test_only_a_gain_within_one_line_over_a_right_kernel_is_summarised(
    tmp_path: Path, speeds: tuple[Any, Any], asks: bool
) -> None:
    actor = Actor("none", [answer(kernel(speed)) for speed in speeds])
    run(episode_context(tmp_path / "run", actor), replace(SETTINGS, turns=2, summaries=1, schemes=0, select="none"))
    assert ("summarise" in actor.roles) is asks


@pytest.mark.parametrize("said", ["", "no idea, sorry", "{", json.dumps({"name": "x"})])
def test_summaries_that_cannot_be_read_cost_nothing_but_the_answer(tmp_path: Path, said: str) -> None:
    actor = Actor("none", [answer(kernel(1.1)), answer(kernel(1.9))], said)
    episode = run(episode_context(tmp_path / "run", actor), replace(SETTINGS, turns=2, summaries=1, schemes=0, select="none"))
    assert episode.proposals == () and episode.ended == "all turns taken"


def test_a_resumed_episode_does_nothing_twice_and_sees_the_library_as_it_was(tmp_path: Path, library: Library) -> None:
    settings = replace(SETTINGS, turns=2, summaries=1)
    actor = Actor("one_loop_over_time: yes", [answer(kernel(1.1, str(n)), "a") for n in range(4)])
    first = run(episode_context(tmp_path / "run", actor, library=library), settings)
    tokens = totals_of(list(read_events(tmp_path / "run"))).tokens
    library.move("one_loop_over_time", SkillState.RETIRED, "superseded")
    context = episode_context(tmp_path / "run", [], library=library)
    again = run(context, settings)
    assert again == first and asked(context) == 0
    assert isinstance(context.judge, FakeJudge) and context.judge.judged == []
    assert context.budget.tokens == tokens and context.budget.kernels == 4
    assert sum(isinstance(event, EpisodeEnded) for event in context.journal.events) == 1


def test_a_run_with_more_to_spend_goes_on_where_it_stopped(tmp_path: Path) -> None:
    settings = replace(SETTINGS, turns=3, schemes=0, select="none")
    answers = [answer(kernel(speed)) for speed in (1.1, 1.3, 1.5)]
    short = run(episode_context(tmp_path, answers[:2], BudgetCaps(kernels=2)), settings)
    assert "2 kernels" in short.ended
    context = episode_context(tmp_path, answers[2:])
    assert run(context, settings).ended == "all turns taken"
    assert asked(context) == 1
    ends = [event for event in context.journal.events if isinstance(event, EpisodeEnded)]
    assert [event.best for event in ends] == ["s0r0t1", "s0r0t2"]


def test_attempts_are_told_from_the_log_alone(tmp_path: Path) -> None:
    settings = replace(SETTINGS, turns=4, schemes=0, select="none")
    repeated = answer(kernel(1.3))
    run(episode_context(tmp_path, [answer(kernel("timeout")), "no code", repeated, repeated]), settings)
    events = list(read_events(tmp_path))
    attempts = attempts_of(events, TASK.id)
    assert [attempt.outcome for attempt in attempts] == ["timeout", "no kernel", "faster", "faster"]
    assert [attempt.same_as for attempt in attempts] == ["", "", "", "s0r0t2"]
    assert by_outcome(attempts) == {"faster": 2, "timeout": 1, "no kernel": 1}
    assert totals_of(events).calls == 4 and seconds_of(events) == 0  # nobody said when the run began
    first = next(number for number, event in enumerate(events) if isinstance(event, Wrote))
    assert [attempt.outcome for attempt in attempts_of(events[: first + 1], TASK.id)] == ["not judged"]


def test_a_prompt_has_room_also_where_answers_may_be_longer_than_the_context(tmp_path: Path) -> None:
    context = episode_context(tmp_path, ["none"], context=4096)
    with context.journal:
        assert context.room(replace(SETTINGS, max_tokens=8192)).tokens == 2048
        assert context.room(replace(SETTINGS, max_tokens=1)).tokens == int(4096 * 0.7)


def test_a_task_that_does_not_fit_the_context_is_one_clear_error(tmp_path: Path) -> None:
    from bottega.backbone.reply import ContextError

    with pytest.raises(ContextError, match="longer context"):
        run(episode_context(tmp_path, ["none"], context=600), replace(SETTINGS, schemes=0, select="none"))
    with EpisodeJournal(tmp_path) as journal:
        assert not attempts_of(journal.events, TASK.id)


def test_retrieval_brings_what_a_card_requires_and_leaves_out_what_conflicts(tmp_path: Path, library: Library) -> None:
    """The provider shares no word with the task; it is found by the feature that it provides."""
    needs = replace(
        card("needs_a_carry"),
        tags=("scan", "stack", "decay"),
        relations=Relations(requires=("carried_state",), provides=("needs",), conflicts=("stacked",)),
    )
    brings = replace(
        card("brings_it"),
        intent="Hold values between rounds of the outermost walk.",
        tags=("carried_state",),
        anchor="values that a later round wants",
        technique="Keep them where the next round finds them, and write them back once when all rounds are over.",
        example="carried_state",
        relations=Relations(provides=("carried_state=1",)),
    )
    stacked = replace(card("stacked_in_place"), relations=Relations(provides=("stacked",)))
    library.add_many([needs, brings, stacked])
    settings = EpisodeSettings(turns=1, samples=1, retrieved=4, skills=4, schemes=1, select="bm25")
    plain = [hit.skill.name for hit in library.search(query_for(TASK), 4, Filter())]
    assert "brings_it" not in plain and plain.index("needs_a_carry") < 3
    names = [skill.name for skill in retrieve(library, TASK, settings, DEVICE, library.version)]
    assert names.index("brings_it") == names.index("needs_a_carry") + 1
    given = run(episode_context(tmp_path / "run", Actor("", [answer(kernel(1.1))] * 2), library=library), settings).schemes[1]
    assert given.index("brings_it") < given.index("needs_a_carry"), "a writer reads of what is required first"
    assert ("needs_a_carry" in given) != ("stacked_in_place" in given)


def test_an_episode_is_offered_no_card_whose_typed_conditions_do_not_hold(library: Library) -> None:
    """The task's calls are recorded in a sandbox; the device is the one that the episode runs on."""
    task = Task(TASK.source.replace("range(x.shape[1])", "range(4)"), "recurrence over time")
    asked = {
        "for_its_sums": AppliesTo(kinds=("elementwise",), dtypes=("float32",)),
        "for_products": AppliesTo(kinds=("product",)),
        "for_this_device": AppliesTo(devices=(DEVICE.name,)),
        "for_another_device": AppliesTo(devices=("aarch64",)),
    }
    library.add_many([replace(card(name), applies_to=conditions) for name, conditions in asked.items()])
    settings = EpisodeSettings(retrieved=9)
    offered = {skill.name for skill in retrieve(library, task, settings, DEVICE, library.version)}
    assert offered == {"one_loop_over_time", "stack_in_place", "for_its_sums", "for_this_device"}
    elsewhere = replace(DEVICE, name="Neoverse-N1", arch="aarch64 asimd")
    offered = {skill.name for skill in retrieve(library, task, settings, elsewhere, library.version)}
    assert offered == {"one_loop_over_time", "stack_in_place", "for_its_sums", "for_another_device"}
