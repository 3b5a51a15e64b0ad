"""Examples for the writer: a first kernel with and without cards, a repair from a real diagnosis, the next step from a slower kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bottega.agents import writer
from bottega.agents.feedback import past_of_verdict
from bottega.agents.history import Past
from bottega.agents.prompts import Prompts
from bottega.compiler.steps import FIRST_ATTEMPT
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.core.verdict import Verdict
from bottega.data.answers import written
from bottega.data.cards import Shelf
from bottega.data.example import Example, Kind, with_answer
from bottega.data.material import Attempt, Lesson, apart, best_of, gain_over, worth_learning
from bottega.data.settings import ExampleStage

NEARLY_BEST = 0.9
"""A course whose best is at least this share of the best of all courses is worth showing too: styles differ."""
ONE_IN = 12
"""Of so many unjudged kernels one is shown with cards too."""


@dataclass(frozen=True)
class Desk:
    """What all examples of a run share."""

    stage: ExampleStage
    prompts: Prompts
    device: DeviceFacts
    shelf: Shelf
    sketches: Mapping[str, str] = field(default_factory=dict)
    """By task; one that has none is shown whole."""


def unjudged_examples(lesson: Lesson, desk: Desk, attempt: Attempt) -> Iterator[Example]:
    """One without cards, and of some tasks one with: the cards of the kernel's techniques, of which nobody knows here what they gained."""
    yield _write(lesson, desk, "first", attempt, ())
    if _draw(attempt.id, "untried", ONE_IN) == 0:
        own = desk.shelf.of(attempt.cards or attempt.step.cards, lesson.language)
        others = [card for card in desk.shelf.retrieved(lesson) if card not in own]
        if shown := _mixed(attempt.id, own, others, desk.stage.skills):
            yield _write(lesson, desk, "first_with_untried_skills", attempt, shown)


def writing_examples(lesson: Lesson, desk: Desk) -> Iterator[Example]:
    """Raises `UnreadableAnswer` for an answer that the parser does not give back."""
    yield from _first(lesson, desk)
    yield from _improvements(lesson, desk)
    yield from _repairs(lesson, desk)


def _first(lesson: Lesson, desk: Desk) -> Iterator[Example]:
    baseline = desk.stage.baseline
    concise = desk.stage.concise
    bests = [best for course in lesson.courses if (best := worth_learning(course, baseline, concise)) is not None]
    top = max((best.score(baseline) for best in bests), default=0.0)
    seen: set[str] = set()
    for best in bests:
        if best.id in seen or best.score(baseline) < min(NEARLY_BEST, concise) * top:
            continue
        seen.add(best.id)
        yield _write(lesson, desk, "first", best, ())
        useful, useless = desk.shelf.for_writing(lesson, best, baseline)
        if useful:
            shown = _mixed(best.id, useful, useless, desk.stage.skills)
            yield _write(lesson, desk, "first_with_skills", best, shown)
        if useless:
            count = 1 + _draw(best.id, "useless", min(desk.stage.skills, len(useless)))
            yield _write(lesson, desk, "first_with_useless_skills", best, tuple(useless[:count]))


def _improvements(lesson: Lesson, desk: Desk) -> Iterator[Example]:
    """From a kernel to the one that grew from it and is surely faster; the prompt shows as much of the way as a writer may have seen."""
    baseline = desk.stage.baseline
    for course in lesson.courses:
        by_id = {attempt.id: attempt for attempt in course}
        for attempt in course:
            parent = next((by_id[name] for name in reversed(attempt.ancestors) if name in by_id), None)
            if parent is None or not apart(attempt.verdict, parent.verdict, baseline):
                continue
            line = _line(parent, by_id)
            shown = line[-(1 + _draw(attempt.id, "history", len(line))) :]
            past = tuple(_past(one, baseline) for one in shown)
            best = best_of(shown, baseline)
            known = best is not None and best.speedup(baseline) is not None
            cards = desk.shelf.of(attempt.step.cards, lesson.language) if _draw(attempt.id, "cards", 2) else ()
            example = _write(
                lesson, desk, "improve", attempt, tuple(cards[:1]), past, _past(best, baseline) if known and best else None
            )
            yield replace(
                example,
                techniques=(attempt.step.technique,),
                outcome_before=parent.verdict.outcome.value,
                gain=gain_over(attempt, parent, baseline),
                candidates=(*(each.id for each in shown), attempt.id),
            )


def _repairs(lesson: Lesson, desk: Desk) -> Iterator[Example]:
    """A kernel that the judge found wrong, with what it said, and the one that it should have been."""
    baseline = desk.stage.baseline
    correct = {attempt.id: attempt for course in lesson.courses for attempt in course if attempt.accepted}
    for slip in lesson.slips:
        verdict = lesson.verdicts.get(slip.candidate.id)
        right = correct.get(slip.candidate.parent or "")
        if right is None or verdict is None or verdict.outcome.accepted or verdict.outcome.value == "invalid_task":
            continue
        earlier = correct.get(right.step.candidate.parent or "")
        shown = [earlier] if earlier is not None and _draw(slip.candidate.id, "earlier", 2) else []
        broken = past_of_verdict(writer.Written(slip.candidate.source, _summary(right)), verdict, baseline)
        past = (*(_past(one, baseline) for one in shown), broken)
        best = _past(shown[0], baseline) if shown and shown[0].speedup(baseline) is not None else None
        said = f"{slip.cure} {_summary(right)}".strip()
        example = _write(lesson, desk, "repair", right, (), past, best, said, _thought(verdict))
        yield replace(
            example,
            techniques=(f"mistake:{slip.mistake}",),
            outcome_before=verdict.outcome.value,
            candidates=(*(one.id for one in shown), slip.candidate.id, right.id),
        )


def _write(
    lesson: Lesson,
    desk: Desk,
    kind: Kind,
    attempt: Attempt,
    skills: Sequence[Skill],
    past: tuple[Past, ...] = (),
    best: Past | None = None,
    summary: str = "",
    thought: str = "",
) -> Example:
    stage = desk.stage
    given = writer.WriterInput(
        lesson.task,
        lesson.language,
        desk.device,
        tuple(skills),
        past,
        best,
        sketch=desk.sketches.get(lesson.task.id, ""),
        precision=stage.precision,
        baseline=stage.baseline,
    )
    prompt = writer.messages(given, desk.prompts)
    answer = written(
        attempt.source, summary or _summary(attempt), stage.style, thought, lesson.task.source, _walk(lesson, given)
    )
    return Example(
        role="write",
        kind=kind,
        messages=with_answer(prompt, answer),
        techniques=attempt.techniques or (FIRST_ATTEMPT,),
        skills=tuple(skill.name for skill in skills),
        candidates=(attempt.id,),
        code=attempt.source,
        **facts(lesson, attempt, stage.baseline),
    )


def _walk(lesson: Lesson, given: writer.WriterInput) -> str:
    """The sketch that an answer walks along: a Triton kernel's, where the prompt has it."""
    return given.sketch if lesson.language == "triton" else ""


def facts(lesson: Lesson, attempt: Attempt, baseline: str) -> dict[str, Any]:
    """The columns that every example has of its task and kernel."""
    speedup = attempt.speedup(baseline)
    return {
        "task_id": lesson.task.id,
        "task_name": lesson.task.name,
        "language": lesson.language,
        "level": lesson.task.level,
        "family": lesson.subject.family,
        "ops": lesson.subject.ops,
        "structure": lesson.subject.structure,
        "outcome": attempt.outcome,
        "speedup_low": speedup.low if speedup else None,
        "speedup": speedup.point if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "seed": attempt.lecture.seed,
    }


def _past(attempt: Attempt, baseline: str) -> Past:
    return past_of_verdict(writer.Written(attempt.source, _summary(attempt)), attempt.verdict, baseline)


def _summary(attempt: Attempt) -> str:
    return attempt.step.summary or attempt.step.technique.replace("_", " ").capitalize() + "."


def _thought(verdict: Verdict) -> str:
    said = " ".join(verdict.diagnosis.split())
    return f"The attempt was {verdict.outcome.value.replace('_', ' ')}: {said}" if said else ""


def _line(attempt: Attempt, by_id: dict[str, Attempt]) -> list[Attempt]:
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
