"""Examples for the writer: a first kernel with and without cards, a repair from a real diagnosis, the next step from a slower kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.agents import writer
from bottega.agents.earlier_turn import EarlierTurn, judged_turn
from bottega.agents.prompts import Prompts
from bottega.compiler.build_step import FIRST_ATTEMPT
from bottega.compiler.callgraph import CallGraph
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.core.verdict import Verdict
from bottega.data.answers import written
from bottega.data.cards import CardIndex
from bottega.data.example import Example, Kind, with_answer
from bottega.data.records import JudgedStep, JudgedTask, best_of, gain_over, surely_faster, worth_learning
from bottega.data.settings import ExampleStage
from bottega.languages import language_named

NEARLY_BEST = 0.9
"""The best kernel of another build is an example too, where it has at least this share of the best of all."""
ONE_IN = 12
"""Of so many unjudged kernels one is shown with cards too."""


@dataclass(frozen=True)
class ExampleContext:
    """What all examples of a run share."""

    stage: ExampleStage
    prompts: Prompts
    device: DeviceFacts
    card_index: CardIndex
    callgraphs: Mapping[str, CallGraph | None] = field(default_factory=dict)
    """By task; one that has none is shown whole."""


def unjudged_examples(judged_task: JudgedTask, context: ExampleContext, attempt: JudgedStep) -> Iterator[Example]:
    """One without cards, and of some tasks one with: the cards of the kernel's techniques, of which nobody knows here what they gained."""
    yield _write(judged_task, context, "first", attempt, ())
    if _draw(attempt.id, "untried", ONE_IN) == 0:
        own = context.card_index.of(attempt.cards or attempt.step.cards, judged_task.language)
        others = [card for card in context.card_index.retrieved(judged_task) if card not in own]
        if shown := _mixed(attempt.id, own, others, context.stage.skills):
            yield _write(judged_task, context, "first_with_untried_skills", attempt, shown)


def writing_examples(judged_task: JudgedTask, context: ExampleContext) -> Iterator[Example]:
    """Raises `UnreadableAnswer` for an answer that the parser does not give back."""
    yield from _first(judged_task, context)
    yield from _improvements(judged_task, context)
    yield from _repairs(judged_task, context)


def _first(judged_task: JudgedTask, context: ExampleContext) -> Iterator[Example]:
    baseline = context.stage.baseline
    concise = context.stage.concise
    bests = [best for build in judged_task.builds if (best := worth_learning(build, baseline, concise)) is not None]
    top = max((best.score(baseline) for best in bests), default=0.0)
    seen: set[str] = set()
    for best in bests:
        if best.id in seen or best.score(baseline) < min(NEARLY_BEST, concise) * top:
            continue
        seen.add(best.id)
        yield _write(judged_task, context, "first", best, ())
        useful, useless = context.card_index.for_writing(judged_task, best, baseline)
        if useful:
            shown = _mixed(best.id, useful, useless, context.stage.skills)
            yield _write(judged_task, context, "first_with_skills", best, shown)
        if useless:
            count = 1 + _draw(best.id, "useless", min(context.stage.skills, len(useless)))
            yield _write(judged_task, context, "first_with_useless_skills", best, tuple(useless[:count]))


def _improvements(judged_task: JudgedTask, context: ExampleContext) -> Iterator[Example]:
    """From a kernel to the one that grew from it and is surely faster; the prompt shows as much of the way as a writer may have seen."""
    baseline = context.stage.baseline
    for build in judged_task.builds:
        by_id = {attempt.id: attempt for attempt in build}
        for attempt in build:
            parent = next((by_id[name] for name in reversed(attempt.ancestors) if name in by_id), None)
            if parent is None or not surely_faster(attempt.verdict, parent.verdict, baseline):
                continue
            line = _line(parent, by_id)
            shown = line[-(1 + _draw(attempt.id, "history", len(line))) :]
            past = tuple(_past(one, baseline) for one in shown)
            best = best_of(shown, baseline)
            known = best is not None and best.speedup(baseline) is not None
            cards = context.card_index.of(attempt.step.cards, judged_task.language) if _draw(attempt.id, "cards", 2) else ()
            example = _write(
                judged_task,
                context,
                "improve",
                attempt,
                tuple(cards[:1]),
                past,
                _past(best, baseline) if known and best else None,
            )
            yield replace(
                example,
                techniques=(attempt.step.technique,),
                outcome_before=parent.verdict.outcome.value,
                gain=gain_over(attempt, parent, baseline),
                candidates=(*(each.id for each in shown), attempt.id),
            )


def _repairs(judged_task: JudgedTask, context: ExampleContext) -> Iterator[Example]:
    """A kernel that the judge found wrong, with what it said, and the one that it should have been."""
    baseline = context.stage.baseline
    correct = {attempt.id: attempt for build in judged_task.builds for attempt in build if attempt.accepted}
    for mutant in judged_task.mutants:
        verdict = judged_task.verdicts.get(mutant.candidate.id)
        right = correct.get(mutant.candidate.parent or "")
        if right is None or verdict is None or verdict.outcome.accepted or verdict.outcome.value == "invalid_task":
            continue
        earlier = correct.get(right.step.candidate.parent or "")
        shown = [earlier] if earlier is not None and _draw(mutant.candidate.id, "earlier", 2) else []
        broken = judged_turn(mutant.candidate.source, _summary(right), verdict, baseline)
        past = (*(_past(one, baseline) for one in shown), broken)
        best = _past(shown[0], baseline) if shown and shown[0].speedup(baseline) is not None else None
        said = f"{mutant.cure} {_summary(right)}".strip()
        example = _write(judged_task, context, "repair", right, (), past, best, said, _thought(verdict))
        yield replace(
            example,
            techniques=(f"mistake:{mutant.mistake}",),
            outcome_before=verdict.outcome.value,
            candidates=(*(one.id for one in shown), mutant.candidate.id, right.id),
        )


def _write(
    judged_task: JudgedTask,
    context: ExampleContext,
    kind: Kind,
    attempt: JudgedStep,
    skills: Sequence[Skill],
    past: tuple[EarlierTurn, ...] = (),
    best: EarlierTurn | None = None,
    summary: str = "",
    thought: str = "",
) -> Example:
    stage = context.stage
    given = writer.WriterInput(
        judged_task.task,
        judged_task.language,
        context.device,
        tuple(skills),
        past,
        best,
        callgraph=context.callgraphs.get(judged_task.task.id),
        precision=stage.precision,
        baseline=stage.baseline,
    )
    prompt = writer.messages(given, context.prompts)
    answer = written(
        attempt.source, summary or _summary(attempt), stage.style, thought, judged_task.task.source, _walk(judged_task, given)
    )
    return Example(
        role="write",
        kind=kind,
        messages=with_answer(prompt, answer),
        techniques=attempt.techniques or (FIRST_ATTEMPT,),
        skills=tuple(skill.name for skill in skills),
        candidates=(attempt.id,),
        code=attempt.source,
        **facts(judged_task, attempt, stage.baseline),
    )


def _walk(judged_task: JudgedTask, given: writer.WriterInput) -> CallGraph | None:
    """The call graph that an answer follows, in a language of the kernel library, where the prompt has it."""
    return given.callgraph if language_named(judged_task.language).kernel_library else None


def facts(judged_task: JudgedTask, attempt: JudgedStep, baseline: str) -> dict[str, Any]:
    """The columns that every example has of its task and kernel."""
    speedup = attempt.speedup(baseline)
    return {
        "task_id": judged_task.task.id,
        "task_name": judged_task.task.name,
        "language": judged_task.language,
        "level": judged_task.task.level,
        "family": judged_task.task_record.family,
        "ops": judged_task.task_record.ops,
        "structure": judged_task.task_record.structure,
        "outcome": attempt.outcome,
        "speedup_low": speedup.low if speedup else None,
        "speedup": speedup.point if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "seed": attempt.record.seed,
    }


def _past(attempt: JudgedStep, baseline: str) -> EarlierTurn:
    return judged_turn(attempt.source, _summary(attempt), attempt.verdict, baseline)


def _summary(attempt: JudgedStep) -> str:
    return attempt.step.summary or attempt.step.technique.replace("_", " ").capitalize() + "."


def _thought(verdict: Verdict) -> str:
    said = " ".join(verdict.diagnosis.split())
    return f"The attempt was {verdict.outcome.value.replace('_', ' ')}: {said}" if said else ""


def _line(attempt: JudgedStep, by_id: dict[str, JudgedStep]) -> list[JudgedStep]:
    """The judged attempts that lead to one, oldest first, and it."""
    return [*(by_id[name] for name in attempt.ancestors if name in by_id), attempt]


def _mixed(key: str, useful: Sequence[Skill], useless: Sequence[Skill], most: int) -> tuple[Skill, ...]:
    """Cards that helped among others, in no telling order."""
    count = _draw(key, "distractors", most)
    chosen = [*useful[:most], *useless[: min(count, max(0, most - len(useful)))]]
    return tuple(sorted(chosen, key=lambda skill: hashlib.sha256(f"{key}/{skill.name}".encode()).digest()))


def _draw(key: str, what: str, among: int) -> int:
    """From 0 to `among` - 1, always the same for the same key."""
    return hashlib.sha256(f"{key}/{what}".encode()).digest()[0] % max(1, among)
