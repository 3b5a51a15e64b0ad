"""Prompts that differ in their cards alone, and what is right to answer: the rows of `choice_counterfactual.py`.

A card that is shown is followed, whatever it says; cards whose conditions do not hold are not shown, as code checks them. Cards are the task's
winner, any other choice that ran, and for the selector all winners beside made-up cards of other devices. The selector's right answer is what was
measured: the offered cards whose advice is fastest on the task.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from choice_cards import ChoiceCard, Range, advised_gain, answer_with
from choice_places import places_of
from choice_sweep import SURE, Row
from choice_tasks import SweepTask

from bottega.agents import selector
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_places import ChoicePlace
from bottega.compiler.workload import workload_of
from bottega.core.device import DeviceFacts
from bottega.core.errors import BottegaError
from bottega.core.workload import Workload
from bottega.data.answers import selected, written
from bottega.skills.library import Library
from bottega.skills.query import Query, query_for
from bottega.skills.retrieve import EVERY_STATE, Filter
from bottega.tasks.tags import tags_of

HERE = "NVIDIA H200"
PROCESSORS = {
    HERE: ("sm_90", 132), "NVIDIA A100": ("sm_80", 108), "NVIDIA L4": ("sm_89", 58), "NVIDIA RTX 4090": ("sm_89", 128),
    "NVIDIA B200": ("sm_100", 148),
}  # fmt: skip
"""Devices that a prompt or a card may name; nothing was measured on the others."""
PROMPTS = Path(__file__).parent / "choice_prompts"
OFFERED, PICKED = 12, 2
"""Cards that BM25 shows the selector, and that it may pick."""
NONE, RIGHT, WRONG, FOUND, BM25, CHECKED, SELECTOR = (
    "no card", "right card", "wrong advice", "finding", "bm25", "conditions", "selector",
)  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A task of the sweep with what cards can be made of."""

    task: SweepTask
    row: Row
    places: Mapping[str, ChoicePlace]
    right: tuple[ChoiceCard, ...]
    """Of its winner, where that surely beat the rule by choices alone and all its places have sizes; one for each place."""

    @property
    def own(self) -> set[str]:
        """Names of the right cards."""
        return {card.name for card in self.right}

    @property
    def chance(self) -> random.Random:
        return random.Random(self.task.id)

    @property
    def workload(self) -> Workload:
        return workload_of(recorded(self.task.source), DeviceFacts("cuda", HERE, *PROCESSORS[HERE], 0.0))

    def gain(self, card: ChoiceCard) -> float | None:
        """Measured, of the variant that a card advises."""
        return advised_gain(self.row, self.places, card)

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


def held_out_cases(one: Known, found: Sequence[ChoiceCard], offered: Offer) -> list[Case]:
    """Wrong advice is the right card with another choice: its conditions hold, and the choice ran."""
    chance = one.chance
    holding = [card for card in found if any(card.holds(place, one.task.dtype, HERE) for place in one.places.values())]
    cases = [
        Case(NONE, HERE, ()),
        Case(BM25, HERE, tuple(offered.unchecked[:1])),
        Case(CHECKED, HERE, tuple(offered.checked[:1])),
        Case(FOUND, HERE, tuple(holding[:PICKED])),
    ]
    if one.right:
        wrong = []
        for card in one.right:
            labels = [
                label for place, label in one.choices if one.places[place].function in card.functions and label != card.choice
            ]
            wrong += [replace(card, choice=chance.choice(labels))] if labels else []
        cases += [Case(RIGHT, HERE, one.right), Case(WRONG, HERE, tuple(wrong))]
    # where no card holds, who is offered checked cards has none
    return [case for case in cases if case.cards or case.kind in (NONE, CHECKED)]


def chat(one: Known, case: Case, prompts: Prompts | None = None) -> Row | None:
    """A training row; None where an answer cannot be read back. `prompts`: else those that name the device."""
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
    asked = messages(given, prompts or Prompts("terse", PROMPTS))
    return _row(asked, text, "write") | {"kind": case.kind, "task": one.task.id}


def selecting(one: Known, offered: Sequence[ChoiceCard]) -> Row:
    """Right are the offered cards whose advice is surely faster than the rule's choice on this task, the fastest first."""
    graph = recorded(one.task.source)
    gains = {card.name: one.gain(card) or 1.0 for card in offered}
    better = sorted((card for card in offered if gains[card.name] >= SURE), key=lambda card: -gains[card.name])
    headers = tuple(card.skill().header for card in offered)
    given = selector.SelectorInput(one.task.task, headers, PICKED, HERE, "triton", graph if graph.calls else None)
    text = selected([card.skill() for card in better[:PICKED]], PICKED, "terse")
    return _row(selector.messages(given, Prompts("terse", PROMPTS)), text, "select") | {"kind": "select", "task": one.task.id}


def _row(prompt: Sequence[Any], answer: str, role: str) -> Row:
    content = [{"role": message.role, "content": message.content} for message in prompt]
    return {"messages": [*content, {"role": "assistant", "content": answer}], "role": role, "split": "train"}


def library_of(some: Sequence[Known]) -> dict[str, ChoiceCard]:
    """Every winner's cards, and beside each a made-up one of another device that says something else."""
    found: dict[str, ChoiceCard] = {}
    for one in some:
        for card in one.right:
            chance = random.Random(card.name)
            labels = [
                label for place, label in one.choices if one.places[place].function in card.functions and label != card.choice
            ]
            found[card.name] = card
            if labels:
                there = chance.choice([device for device in PROCESSORS if device != HERE])
                decoy = replace(card, device=there, choice=chance.choice(labels))
                found[decoy.name] = decoy
    return found


@dataclass(frozen=True)
class Offer:
    """BM25's best for a task: of all cards, and of those whose conditions hold."""

    unchecked: tuple[ChoiceCard, ...] = ()
    checked: tuple[ChoiceCard, ...] = ()


def retrieved(some: Sequence[Known], cards: Mapping[str, ChoiceCard]) -> dict[str, Offer]:
    only = Filter(EVERY_STATE, "triton", "cuda")
    found: dict[str, Offer] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder) / "library")
        library.add_many([card.skill() for card in cards.values()])
        for one in some:
            query, holding = query_of(one.task), replace(only, workload=partial(getattr, one, "workload"))
            hits = (library.search(query, OFFERED, each) for each in (only, holding))
            found[one.task.id] = Offer(*(tuple(cards[hit.skill.name] for hit in part) for part in hits))
    return found


def query_of(task: SweepTask) -> Query:
    return query_for(replace(task.task, tags=tuple(tags_of(task.source, task.level))))
