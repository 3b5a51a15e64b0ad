"""Prompts that differ in their cards alone, and what is right to answer: the rows of `choice_counterfactual.py`.

A card that is shown is followed, whatever it says; cards whose conditions do not hold are not shown, as code checks them. Cards are the task's
winner, and any other choice that ran.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from choice_cards import ChoiceCard, Range, answer_with
from choice_places import places_of
from choice_sweep import SURE, Row
from choice_tasks import SweepTask

from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_places import ChoicePlace
from bottega.core.device import DeviceFacts
from bottega.core.errors import BottegaError
from bottega.data.answers import written
from bottega.skills.query import Query, query_for
from bottega.tasks.tags import tags_of

HERE = "NVIDIA H200"
PROCESSORS = {
    HERE: ("sm_90", 132), "NVIDIA A100": ("sm_80", 108), "NVIDIA L4": ("sm_89", 58), "NVIDIA RTX 4090": ("sm_89", 128),
    "NVIDIA B200": ("sm_100", 148),
}  # fmt: skip
"""Devices that a prompt or a card may name; nothing was measured on the others."""
PROMPTS = Path(__file__).parent / "choice_prompts"
NONE, RIGHT, WRONG = "no card", "right card", "wrong advice"


@dataclass(frozen=True)
class Known:
    """A task of the sweep with what cards can be made of."""

    task: SweepTask
    row: Row
    places: Mapping[str, ChoicePlace]
    right: tuple[ChoiceCard, ...]
    """Of its winner, where that surely beat the rule by choices alone and all its places have sizes; one for each place."""

    @property
    def chance(self) -> random.Random:
        return random.Random(self.task.id)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """ChoicePlace and label of all that ran."""
        tried = [(one["place"], one["label"]) for one in self.row["variants"] if one["ms"]]
        return [one for one in tried if one[0] in self.places]


def known(task: SweepTask, row: Row) -> Known:
    places = places_of(task)
    winner = row["winner"] if row["gain"] >= SURE and row.get("answer") else []
    whole = all(place in places for place, _ in winner)
    chance = random.Random(task.id)
    right = [_card(task, places[place], label, HERE, chance, 0) for place, label in winner] if whole else []
    return Known(task, row, places, tuple(right))


def sizes_told(place: ChoicePlace) -> tuple[str, ...]:
    """Those that a prompt's shapes show, of which conditions are made."""
    for names in (("columns", "depth"), ("channels",), ("columns",)):
        if all(name in place.sizes for name in names):
            return names
    return tuple(place.sizes)


def around(size: int, chance: random.Random, widest: int) -> Range:
    """A range between powers of two that has the size in it, wider by up to so many powers at each end."""
    power = size.bit_length() - 1
    return 1 << max(0, power - chance.randint(0, widest)), (2 << (power + chance.randint(0, widest))) - 1


def _card(task: SweepTask, place: ChoicePlace, label: str, device: str, chance: random.Random, widest: int) -> ChoiceCard:
    ranges = {name: around(place.sizes[name], chance, widest) for name in sizes_told(place)}
    tags = (task.family.split(" ")[-1], *task.operators)
    return ChoiceCard(device, (place.function,), (task.dtype,), ranges, label, tags)


# rows


@dataclass(frozen=True)
class Case:
    """A prompt's device and cards; what the right answer is follows from them."""

    kind: str
    device: str
    cards: tuple[ChoiceCard, ...]


def training_cases(one: Known) -> list[Case]:
    """Counterfactual pairs: the same prompt with another card has another answer."""
    chance, found = one.chance, [Case(NONE, HERE, ())]
    if not one.choices:
        return found

    def drawn(device: str = HERE, but: Sequence[ChoiceCard] = ()) -> ChoiceCard:
        said = {(card.functions[0], card.choice) for card in but}
        some = [
            (place, label) for place, label in one.choices if (one.places[place].function, label) not in said
        ] or one.choices
        place, label = chance.choice(some)
        return _card(one.task, one.places[place], label, device, chance, 2)

    right = one.right or (drawn(),)
    another = drawn(but=right)
    third = drawn(but=(*right, another))
    there = chance.choice([device for device in PROCESSORS if device != HERE])
    elsewhere = [place for place in one.places if one.places[place].function != another.functions[0]]
    beside = [(place, label) for place, label in one.choices if place in elsewhere]
    cases = [
        *found,
        Case(RIGHT, HERE, right),
        Case("another card", HERE, (another,)),
        Case("a third card", HERE, (third,)),
        Case("right card there", there, (drawn(there),)),
    ]
    if beside:
        place, label = chance.choice(beside)
        pair = [another, _card(one.task, one.places[place], label, HERE, chance, 2)]
        chance.shuffle(pair)
        cases.append(Case("two cards", HERE, tuple(pair)))
    return cases


def held_out_cases(one: Known) -> list[Case]:
    """Wrong advice is the right card with another choice: its conditions hold, and the choice ran."""
    chance, wrong = one.chance, []
    for card in one.right:
        labels = [
            label for place, label in one.choices if one.places[place].function in card.functions and label != card.choice
        ]
        wrong += [replace(card, choice=chance.choice(labels))] if labels else []
    cases = [Case(NONE, HERE, ()), Case(RIGHT, HERE, one.right), Case(WRONG, HERE, tuple(wrong))]
    return [case for case in cases if case.cards or case.kind == NONE]


def chat(one: Known, case: Case) -> Row | None:
    """A training row; None where an answer cannot be read back."""
    graph = recorded(one.task.source)
    given = WriterInput(
        one.task.task,
        "triton",
        DeviceFacts("cuda", case.device, *PROCESSORS[case.device], 0.0),
        tuple(card.skill() for card in case.cards),
        callgraph=graph if graph.calls else None,
    )
    answer = answer_with(one.task, one.places, case.cards, case.device)
    try:
        text = written(answer, "", "terse", task_source=one.task.source, callgraph=graph)
    except BottegaError:
        return None
    prompt = [{"role": each.role, "content": each.content} for each in messages(given, Prompts("terse", PROMPTS))]
    content = [*prompt, {"role": "assistant", "content": text}]
    return {"messages": content, "role": "write", "split": "train", "kind": case.kind, "task": one.task.id}


def query_of(task: SweepTask) -> Query:
    return query_for(replace(task.task, tags=tuple(tags_of(task.source, task.level))))
