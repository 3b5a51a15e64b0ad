"""Examples for the selector: the cards that retrieval offers for a task, and which of them surely made a kernel faster there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bottega.agents import selector
from bottega.data.answers import selected
from bottega.data.cards import tried_cards
from bottega.data.example import Example, with_answer
from bottega.data.examples_writing import Desk, facts
from bottega.data.material import Lesson, best_of

Lost = Callable[[str], None]


def selecting_examples(lesson: Lesson, desk: Desk, lost: Lost) -> Iterator[Example]:
    """One for a task and language. None where helpful cards exist and retrieval does not offer them: that is no reason to pick others."""
    stage = desk.stage
    best = best_of((attempt for course in lesson.courses for attempt in course), stage.baseline)
    if best is None or best.speedup(stage.baseline) is None:
        return
    offered = desk.shelf.retrieved(lesson)
    tried = tried_cards(lesson, stage.baseline)
    known = desk.shelf.of(sorted(tried.helped, key=lambda name: -tried.helped[name]), lesson.language)
    there = {card.name for card in offered}
    helpful = [card for card in known if card.name in there][: stage.skills]
    if not offered:
        return
    if known and not helpful:
        lost("a helpful card was not among the retrieved ones")
        return
    if not known and tried.unsure:
        lost("whether a card helped is not sure")
        return
    given = selector.SelectorInput(
        lesson.task,
        tuple(card.header for card in offered),
        stage.skills,
        desk.device.kind,
        lesson.language,
        desk.sketches.get(lesson.task.id, ""),
    )
    yield Example(
        role="select",
        kind="select" if helpful else "select_none",
        messages=with_answer(selector.messages(given, desk.prompts), selected(helpful, stage.skills, stage.style)),
        techniques=tuple(card.name for card in helpful) or ("none",),
        skills=tuple(card.name for card in helpful),
        gain=max((tried.helped[card.name] for card in helpful), default=None),
        candidates=(best.id,),
        code=lesson.task.source,
        **facts(lesson, best, stage.baseline),
    )
