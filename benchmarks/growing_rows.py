"""Rows of a cold start that knows the forms and not what is fast: `growing_library.py` leaves that for RL and its library to find.

The writer has the rule's choices in its first turn, others at random in later ones, and those of a card that it is shown. The summariser is shown two
answers that differ in one choice, the second said to be faster, and writes the card of that choice. Which one is said to be faster, and by how much,
is drawn: no time of the sweep is in these rows, so that a card's worth is not in the weights before a judge has seen it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from choice_card_rows import HERE, PROCESSORS, Known, chat, training_cases
from choice_cards import ChoiceCard, Range
from choice_sweep import Row

from bottega.agents import summariser, writer
from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message
from bottega.compiler.answer_choices import AnswerChange, changed
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_places import ChoicePlace
from bottega.core.device import DeviceFacts
from bottega.core.errors import BottegaError
from bottega.core.skill import Skill
from bottega.data.answers import summarised, written
from bottega.judge.device_facts import device_facts, is_here
from bottega.skills.conditions import conditions_here

PROMPTS = Prompts("terse")
DEVICE = device_facts("cuda") if is_here("cuda") else DeviceFacts("cuda", HERE, *PROCESSORS[HERE], 0.0)
"""As a summariser's prompt will tell it, where rows are made on the machine that learns from them."""
LATER, SUMMARIES = 3, 4
"""Rows of a task."""
GAINS = (1.2, 2.5)
"""What a faster answer is said to gain."""
ANYWHERE = ", any size"
ANY_SIZE = 1 / 3
"""Of the cards that name no sizes."""


def cold_rows(one: Known) -> list[Row]:
    """All of a task, in an order that is the task's own."""
    if not one.choices:
        return []
    cases = [case for case in training_cases(one) if case.device == HERE]
    rows = [chat(one, case, PROMPTS) for case in cases] + [*_later_turns(one), *_summaries(one)]
    return [row for row in rows if row is not None]


def changes(one: Known) -> dict[tuple[str, str], AnswerChange]:
    """Those that ran and whose place has sizes, by place and label."""
    by_name = {(change.place, change.label): change for change in one.task.variants}
    return {key: by_name[key] for key in one.choices if key in by_name}


def _later_turns(one: Known) -> Iterator[Row | None]:
    """Behind the rule's answer or another one comes one that was not tried."""
    chance, some = one.chance, list(changes(one).values())
    graph = recorded(one.task.source)
    for number in range(LATER):
        first = [chance.choice(some)] if number == LATER - 1 else []
        left = [change for change in some if change not in first] or some
        past = _turn(one, first, _over_eager(one, chance))
        given = writer.WriterInput(
            one.task.task, "triton", DEVICE, past=(past,), best=past, callgraph=graph if graph.calls else None
        )
        try:
            answer = changed(one.task.answer, [chance.choice(left)])
            text = written(answer, "", "terse", task_source=one.task.source, callgraph=graph)
        except BottegaError:
            continue
        yield _row(writer.messages(given, PROMPTS), text, "write", one, "later turn")


def _summaries(one: Known) -> Iterator[Row]:
    chance, some = one.chance, changes(one)
    for number in range(SUMMARIES):
        (place, label), change = chance.choice(list(some.items()))
        others = [other for (at, said), other in some.items() if at == place and said != label]
        first = [chance.choice(others)] if number == SUMMARIES - 1 and others else []
        gain, slower = chance.uniform(*GAINS), _over_eager(one, chance)
        given = summariser.SummariserInput(
            one.task.task,
            "triton",
            DEVICE,
            first=_turn(one, first, slower),
            best=_turn(one, [change], slower * gain),
            gain=gain,
            workload=one.workload,
        )
        asked = told_card(one.places[place], one.task.dtype, label).applies_to
        shown = [each for each in conditions_here(one.workload) if replace(each, sizes={}) == asked]
        if not shown:  # what the answer would ask for is not in the prompt
            continue
        sizes = {} if chance.random() < ANY_SIZE else chance.choice(shown).sizes
        card = told_card(one.places[place], one.task.dtype, label, sizes)
        try:
            text = summarised(card, given, "terse")
        except BottegaError:  # its conditions cannot be checked on this task
            continue
        yield _row(summariser.messages(given, PROMPTS), text, "summarise", one, "summary")


def told_card(place: ChoicePlace, dtype: str, label: str, sizes: Mapping[str, Range] = {}) -> Skill:
    """Of one choice; its name can be read off it. Sizes are told once, in the line that the summariser's prompt has too: a small model copies no
    number five times without a mistake."""
    words = re.findall(r"[a-z0-9]+", f"{place.function} {label} {dtype}".lower())
    card = ChoiceCard(HERE, (place.function,), (dtype,), {}, label).skill()
    return replace(
        card,
        name="_".join(words)[:64].rstrip("_"),
        intent=card.intent.replace(ANYWHERE, ""),
        conditions=replace(card.conditions, layout=card.conditions.layout.replace(ANYWHERE, "")),
        anchor=card.anchor.replace(ANYWHERE, ""),
        effect="Faster than what the first attempt chose.",
        applies_to=replace(card.applies_to, sizes=dict(sizes)),
    )


def _over_eager(one: Known, chance: random.Random) -> float:
    """What the rule's answer is said to be worth."""
    eager = one.row.get("eager_ms")
    return float(eager / one.row["rule_ms"]) if eager else chance.uniform(1.0, 3.0)


def _turn(one: Known, some: Sequence[AnswerChange], speedup: float) -> EarlierTurn:
    source = one.task.candidate(some).source
    outcome = "faster" if speedup > 1 else "slower"
    return EarlierTurn(source, "", "", outcome, speedup, (0.98 * speedup, 1.02 * speedup))


def _row(prompt: Sequence[Message], answer: str, role: str, one: Known, kind: str) -> Row:
    content: list[dict[str, Any]] = [{"role": message.role, "content": message.content} for message in prompt]
    content.append({"role": "assistant", "content": answer})
    return {"messages": content, "role": role, "split": "train", "kind": kind, "task": one.task.id}
