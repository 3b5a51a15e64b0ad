"""Examples for the summariser: a slower and a faster kernel of one line in, the card that names the difference out.

Cards that the gate let in are the rule. Where there was no time for a gate, cards whose technique was surely faster on this one task may stand in for
them, marked as believed: a model that is to learn the role by being rewarded must first write cards that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bottega.agents import summariser
from bottega.agents.feedback import past_of_verdict
from bottega.agents.writer import Written
from bottega.core.errors import LibraryError
from bottega.core.skill import Skill, State
from bottega.data.answers import summarised
from bottega.data.example import Example, Kind, with_answer
from bottega.data.examples_selecting import Lost
from bottega.data.examples_writing import Desk, facts
from bottega.data.material import Attempt, Lesson, gain_over
from bottega.data.proofs import adapted, claims_of
from bottega.data.settings import ExampleStage

MOST = 2
"""Proposals that a summariser may make, as in an episode."""


def summarising_examples(lesson: Lesson, desk: Desk, proofs: list[dict[str, Any]], lost: Lost) -> Iterator[Example]:
    """One for each card that was proved with a kernel of this task."""
    by_id: dict[str, Attempt] = {attempt.id: attempt for course in lesson.courses for attempt in course}
    stage = desk.stage
    for proof in proofs:
        first, best = by_id.get(proof["before"]), by_id.get(proof["after"])
        if proof["language"] != lesson.language or first is None or best is None:
            continue
        if not _worth_telling(first, best, stage):
            lost("a proved card gained less than the margin on its task")
            continue
        try:
            card = desk.shelf.library.get(proof["name"])
        except LibraryError:
            lost("a proved card is not in the library")
            continue
        if card.state is State.ADMITTED:
            yield _example(lesson, desk, first, best, replace(card, name=proof["card"]), proof["technique"], "summarise")


def believed_examples(lesson: Lesson, desk: Desk) -> Iterator[Example]:
    """One for each card whose technique made a kernel of this task surely faster, by the judge and not by the gate: on one task, not on several."""
    by_id: dict[str, Attempt] = {attempt.id: attempt for course in lesson.courses for attempt in course}
    for claim in claims_of(lesson, desk.shelf, desk.stage.baseline):
        first, best = by_id[claim.before], by_id[claim.after]
        cards = desk.shelf.of((claim.card,), lesson.language)
        if not cards or not _worth_telling(first, best, desk.stage):
            continue
        card = adapted(cards[0], claim, best.source, first.source, desk.device.kind, best.lecture.teacher)
        yield _example(lesson, desk, first, best, replace(card, name=claim.card), claim.technique, "summarise_believed")


def _worth_telling(first: Attempt, best: Attempt, stage: ExampleStage) -> bool:
    one, other = best.speedup(stage.baseline), first.speedup(stage.baseline)
    return one is not None and other is not None and one.point / other.point >= stage.margin and one.point >= stage.margin


def _example(lesson: Lesson, desk: Desk, first: Attempt, best: Attempt, card: Skill, technique: str, kind: Kind) -> Example:
    stage = desk.stage
    gain = gain_over(best, first, stage.baseline)
    given = summariser.SummariserInput(
        task=lesson.task,
        language=lesson.language,
        device=desk.device,
        first=_past(first, stage.baseline),
        best=_past(best, stage.baseline),
        gain=gain,
        known=tuple(skill.header for skill in desk.shelf.known(lesson, card.name)),
        most=MOST,
    )
    return Example(
        role="summarise",
        kind=kind,
        messages=with_answer(summariser.messages(given, desk.prompts), summarised(card, given, stage.style)),
        techniques=(technique,),
        skills=(card.name,),
        gain=gain,
        candidates=(first.id, best.id),
        code=best.source,
        outcome_before=first.verdict.outcome.value,
        **facts(lesson, best, stage.baseline),
    )


def _past(attempt: Attempt, baseline: str) -> Any:
    return past_of_verdict(Written(attempt.source, attempt.step.summary), attempt.verdict, baseline)
