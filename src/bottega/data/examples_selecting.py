"""Examples for the selector: the cards that retrieval offers for a task, and which of them surely made a kernel faster there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bottega.agents import selector
from bottega.data.answers import selected
from bottega.data.cards import tried_cards
from bottega.data.example import Example, with_answer
from bottega.data.examples_writing import ExampleContext, facts
from bottega.data.records import JudgedTask, best_of

Lost = Callable[[str], None]


def selecting_examples(judged_task: JudgedTask, context: ExampleContext, lost: Lost) -> Iterator[Example]:
    """One for a task and language. None where helpful cards exist and retrieval does not offer them: that is no reason to pick others."""
    stage = context.stage
    best = best_of((attempt for build in judged_task.builds for attempt in build), stage.baseline)
    if best is None or best.speedup(stage.baseline) is None:
        return
    offered = context.card_index.retrieved(judged_task)
    tried = tried_cards(judged_task, stage.baseline)
    known = context.card_index.of(sorted(tried.helped, key=lambda name: -tried.helped[name]), judged_task.language)
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
        judged_task.task,
        tuple(card.header for card in offered),
        stage.skills,
        context.device.kind,
        judged_task.language,
        context.callgraphs.get(judged_task.task.id),
    )
    yield Example(
        role="select",
        kind="select" if helpful else "select_none",
        messages=with_answer(selector.messages(given, context.prompts), selected(helpful, stage.skills, stage.style)),
        techniques=tuple(card.name for card in helpful) or ("none",),
        skills=tuple(card.name for card in helpful),
        gain=max((tried.helped[card.name] for card in helpful), default=None),
        candidates=(best.id,),
        code=judged_task.task.source,
        **facts(judged_task, best, stage.baseline),
    )
