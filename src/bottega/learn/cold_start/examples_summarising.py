"""Examples for the summariser: a slower and a faster kernel of one line in, the card that names the difference out, where the gate let it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bottega.agents import summariser
from bottega.agents.feedback import past_of_verdict
from bottega.agents.writer import Written
from bottega.core.errors import LibraryError
from bottega.core.skill import State
from bottega.learn.cold_start.answers import summarised
from bottega.learn.cold_start.example import Example, with_answer
from bottega.learn.cold_start.examples_selecting import Lost
from bottega.learn.cold_start.examples_writing import Desk, facts
from bottega.learn.cold_start.material import Attempt, Lesson

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
        one, other = best.speedup(stage.baseline), first.speedup(stage.baseline)
        if one is None or other is None or one.point / other.point < stage.margin or one.point < stage.margin:
            lost("a proved card gained less than the margin on its task")
            continue
        try:
            card = desk.shelf.library.get(proof["name"])
        except LibraryError:
            lost("a proved card is not in the library")
            continue
        if card.state is not State.ADMITTED:
            continue
        card = replace(card, name=proof["card"])
        given = summariser.SummariserInput(
            task=lesson.task,
            language=lesson.language,
            device=desk.device,
            first=_past(first, stage.baseline),
            best=_past(best, stage.baseline),
            gain=one.point / other.point,
            known=tuple(skill.header for skill in desk.shelf.known(lesson, card.name)),
            most=MOST,
        )
        yield Example(
            role="summarise",
            kind="summarise",
            messages=with_answer(summariser.messages(given, desk.prompts), summarised(card, given, stage.style)),
            techniques=(proof["technique"],),
            skills=(card.name,),
            gain=one.point / other.point,
            candidates=(first.id, best.id),
            code=best.source,
            outcome_before=first.verdict.outcome.value,
            **facts(lesson, best, stage.baseline),
        )


def _past(attempt: Attempt, baseline: str) -> Any:
    return past_of_verdict(Written(attempt.source, attempt.step.summary), attempt.verdict, baseline)
