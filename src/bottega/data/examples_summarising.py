"""Examples for the summariser: a slower and a faster kernel of one line in, the card that names the difference out.

Cards that the gate let in are the rule. Where there was no time for a gate, cards whose technique was surely faster on this one task may stand in for
them, marked as believed: a model that is to learn the role by being rewarded must first write cards that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bottega.agents import summariser
from bottega.agents.earlier_turn import judged_turn
from bottega.core.errors import LibraryError
from bottega.core.skill import Skill, SkillState
from bottega.data.answers import summarised
from bottega.data.example import Example, Kind, with_answer
from bottega.data.examples_selecting import Lost
from bottega.data.examples_writing import ExampleContext, facts
from bottega.data.proofs import adapted, claims_of
from bottega.data.records import JudgedStep, JudgedTask, gain_over
from bottega.data.settings import ExampleStage

MOST = 2
"""Proposals that a summariser may make, as in an episode."""


def summarising_examples(
    judged_task: JudgedTask, context: ExampleContext, proofs: list[dict[str, Any]], lost: Lost
) -> Iterator[Example]:
    """One for each card that was proved with a kernel of this task."""
    by_id: dict[str, JudgedStep] = {attempt.id: attempt for build in judged_task.builds for attempt in build}
    stage = context.stage
    for proof in proofs:
        first, best = by_id.get(proof["before"]), by_id.get(proof["after"])
        if proof["language"] != judged_task.language or first is None or best is None:
            continue
        if not _worth_telling(first, best, stage):
            lost("a proved card gained less than the margin on its task")
            continue
        try:
            card = context.card_index.library.get(proof["name"])
        except LibraryError:
            lost("a proved card is not in the library")
            continue
        if card.state is SkillState.ADMITTED:
            yield _example(
                judged_task, context, first, best, replace(card, name=proof["card"]), proof["technique"], "summarise"
            )


def believed_examples(judged_task: JudgedTask, context: ExampleContext) -> Iterator[Example]:
    """One for each card whose technique made a kernel of this task surely faster, by the judge and not by the gate: on one task, not on several."""
    by_id: dict[str, JudgedStep] = {attempt.id: attempt for build in judged_task.builds for attempt in build}
    for claim in claims_of(judged_task, context.card_index, context.stage.baseline):
        first, best = by_id[claim.before], by_id[claim.after]
        cards = context.card_index.of((claim.card,), judged_task.language)
        if not cards or not _worth_telling(first, best, context.stage):
            continue
        card = adapted(cards[0], claim, best.source, first.source, context.device.kind, best.record.teacher)
        yield _example(judged_task, context, first, best, replace(card, name=claim.card), claim.technique, "summarise_believed")


def _worth_telling(first: JudgedStep, best: JudgedStep, stage: ExampleStage) -> bool:
    one, other = best.speedup(stage.baseline), first.speedup(stage.baseline)
    return one is not None and other is not None and one.point / other.point >= stage.margin and one.point >= stage.margin


def _example(
    judged_task: JudgedTask,
    context: ExampleContext,
    first: JudgedStep,
    best: JudgedStep,
    card: Skill,
    technique: str,
    kind: Kind,
) -> Example:
    stage = context.stage
    gain = gain_over(best, first, stage.baseline)
    given = summariser.SummariserInput(
        task=judged_task.task,
        language=judged_task.language,
        device=context.device,
        first=_past(first, stage.baseline),
        best=_past(best, stage.baseline),
        gain=gain,
        known=tuple(skill.header for skill in context.card_index.known(judged_task, card.name)),
        most=MOST,
        workload=context.card_index.workload(judged_task.task)() if card.applies_to else None,
    )
    return Example(
        role="summarise",
        kind=kind,
        messages=with_answer(summariser.messages(given, context.prompts), summarised(card, given, stage.style)),
        techniques=(technique,),
        skills=(card.name,),
        gain=gain,
        candidates=(first.id, best.id),
        code=best.source,
        outcome_before=first.verdict.outcome.value,
        **facts(judged_task, best, stage.baseline),
    )


def _past(attempt: JudgedStep, baseline: str) -> Any:
    return judged_turn(attempt.source, attempt.step.summary, attempt.verdict, baseline)
