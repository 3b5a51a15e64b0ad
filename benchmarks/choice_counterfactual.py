"""Does a model read skill cards? It is taught counterfactually: the same task with a card that holds is answered with the card's choice, with two
different cards in two ways, and with a card for other sizes, another data type or another device, or without one, with the rule's.

Then tasks of unseen kinds are answered without a card, with the right one (their own winner's, as a search found it), with wrong ones, with BM25's
first, and with those that the model itself selects of BM25's; `choice_distil.py` trains and measures. The prompts name the device, which those of
the shipped model do not: `choice_prompts` has their wording.

    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py rows benchmarks/choice_sweep_h200 cards
    PYTHONPATH=src python3 benchmarks/choice_distil.py train cards cards --device cuda --epochs 3
    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py answer cards --device cuda
    PYTHONPATH=src python3 benchmarks/choice_distil.py measure cards --device cuda --seconds 150
    PYTHONPATH=src python3 benchmarks/choice_counterfactual.py report cards
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from choice_cards import ChoiceCard, Range, answer_with
from choice_distil import (
    ANSWERS,
    BEFORE,
    HELD_OUT,
    LONGEST_ANSWER,
    RULE,
    TIMES,
    code_of,
    ends,
    gain_of,
    generated,
    is_held_out,
    oracle,
    read_answer,
    table,
    write_rows,
)
from choice_findings import device_of, findings, measurements
from choice_places import Place, places_of
from choice_sweep import RESULTS, SURE, Row, rows_of, tasks_of
from choice_tasks import DTYPES, FUSED, SweepTask
from figure import Device

from bottega.agents import selector
from bottega.agents.answers.answer import AnswerError
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.compiler.answer_choices import changed
from bottega.compiler.callgraph_names import recorded
from bottega.core.device import DeviceFacts
from bottega.core.errors import BottegaError
from bottega.data.answers import selected, written
from bottega.skills.library import Library
from bottega.skills.query import query_for
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
NONE, RIGHT, FOUND, SIZES, DEVICE, BM25, SELECTOR = (
    "no card",
    "right card",
    "finding",
    "other sizes",
    "other device",
    "bm25",
    "selector",
)
WRITTEN = (NONE, RIGHT, FOUND, SIZES, DEVICE, BM25)
CONTRASTS = (
    (RIGHT, NONE), (RIGHT, SIZES), (RIGHT, DEVICE), (RIGHT, "before, right card"), (FOUND, NONE), (SIZES, NONE), (DEVICE, NONE), (BM25, NONE),
    (SELECTOR, NONE), (SELECTOR, BM25), (NONE, BEFORE),
)  # fmt: skip

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows, the model, answers and times are kept.")]


@dataclass(frozen=True)
class Known:
    """A task of the sweep with what cards can be made of."""

    task: SweepTask
    row: Row
    places: Mapping[str, Place]
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
    def choices(self) -> list[tuple[str, str]]:
        """Place and label of all that ran."""
        tried = [(one["place"], one["label"]) for one in self.row["variants"] if one["ms"]]
        return [one for one in tried if one[0] in self.places]


def known(task: SweepTask, row: Row) -> Known:
    places = places_of(task)
    winner = row["winner"] if row["gain"] >= SURE and row.get("answer") else []
    whole = all(place in places for place, _ in winner)
    chance = random.Random(task.id)
    right = [_card(task, places[place], label, HERE, chance, 0) for place, label in winner] if whole else []
    return Known(task, row, places, tuple(right))


def sizes_told(place: Place) -> tuple[str, ...]:
    """Those that a prompt's shapes show, of which conditions are made."""
    for names in (("columns", "depth"), ("channels",), ("columns",)):
        if all(name in place.sizes for name in names):
            return names
    return tuple(place.sizes)


def around(size: int, chance: random.Random, widest: int) -> Range:
    """A range between powers of two that has the size in it, wider by up to so many powers at each end."""
    power = size.bit_length() - 1
    return 1 << max(0, power - chance.randint(0, widest)), (2 << (power + chance.randint(0, widest))) - 1


def beside(size: int, chance: random.Random) -> Range:
    """One that does not have it."""
    power = size.bit_length() - 1
    if power and chance.random() < 0.5:
        return 1 << max(0, power - chance.randint(1, 3)), (1 << power) - 1
    first = power + chance.randint(1, 2)
    return 1 << first, (2 << (first + chance.randint(0, 2))) - 1


def _card(
    task: SweepTask, place: Place, label: str, device: str, chance: random.Random, widest: int, outside: bool = False
) -> ChoiceCard:
    told = sizes_told(place)
    ranges = {name: around(place.sizes[name], chance, widest) for name in told}
    if outside:
        name = chance.choice(told)
        ranges[name] = beside(place.sizes[name], chance)
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
    chance, found = one.chance, [Case(NONE, HERE, ())]
    if not one.choices:
        return found

    def drawn(device: str = HERE, outside: bool = False, but: str = "") -> ChoiceCard:
        some = [choice for choice in one.choices if choice[1] != but] or one.choices
        place, label = chance.choice(some)
        return _card(one.task, one.places[place], label, device, chance, 2, outside)

    right = one.right or (drawn(),)
    others = [device for device in PROCESSORS if device != HERE]
    there = chance.choice(others)
    dtype = DTYPES[1 - DTYPES.index(one.task.dtype)]
    pair = [drawn(), drawn(outside=True)]
    chance.shuffle(pair)
    return [
        *found,
        Case(RIGHT, HERE, right),
        Case("another card", HERE, (drawn(but=right[0].choice),)),
        Case(SIZES, HERE, (drawn(outside=True),)),
        Case(DEVICE, HERE, (drawn(chance.choice(others)),)),
        Case("other data type", HERE, (replace(drawn(), dtypes=(dtype,)),)),
        Case("right card there", there, (drawn(there),)),
        Case("two cards", HERE, tuple(pair)),
    ]


def held_out_cases(one: Known, found: Sequence[ChoiceCard], first: Sequence[ChoiceCard]) -> list[Case]:
    """Wrong cards are the right ones with other conditions, so that only the conditions differ."""
    chance = one.chance
    wrong = [replace(card, ranges={name: beside(low, chance) for name, (low, _) in card.ranges.items()}) for card in one.right]
    there = chance.choice([device for device in PROCESSORS if device != HERE])
    holding = [card for card in found if any(card.holds(place, one.task.dtype, HERE) for place in one.places.values())]
    cases = [Case(NONE, HERE, ()), Case(BM25, HERE, tuple(first[:1])), Case(FOUND, HERE, tuple(holding[:PICKED]))]
    if one.right:
        elsewhere = tuple(replace(card, device=there) for card in one.right)
        cases += [Case(RIGHT, HERE, one.right), Case(SIZES, HERE, tuple(wrong)), Case(DEVICE, HERE, elsewhere)]
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
    return _row(messages(given, Prompts("terse", PROMPTS)), text, "write") | {"kind": case.kind, "task": one.task.id}


def selecting(one: Known, offered: Sequence[ChoiceCard]) -> Row:
    """Right are the offered cards that hold, the task's own first."""
    graph = recorded(one.task.source)
    holding = [card for card in offered if any(card.holds(place, one.task.dtype, HERE) for place in one.places.values())]
    holding.sort(key=lambda card: card.name not in one.own)
    headers = tuple(card.skill().header for card in offered)
    given = selector.SelectorInput(one.task.task, headers, PICKED, HERE, "triton", graph if graph.calls else None)
    text = selected([card.skill() for card in holding[:PICKED]], PICKED, "terse")
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


def retrieved(some: Sequence[Known], cards: Mapping[str, ChoiceCard]) -> dict[str, list[ChoiceCard]]:
    """BM25's best for every task."""
    only = Filter(EVERY_STATE, "triton", "cuda")
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder) / "library")
        library.add_many([card.skill() for card in cards.values()])
        return {
            one.task.id: [
                cards[hit.skill.name]
                for hit in library.search(query_for(replace(one.task.task, tags=tuple(tags_of(one.task.source, one.task.level)))), OFFERED, only)
            ]
            for one in some
        }  # fmt: skip


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    processes: Annotated[int, typer.Option(min=1)] = 12,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
) -> None:
    """Write the training rows, and the prompts of tasks that are set aside. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    results = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    context = get_context("forkserver")
    with ProcessPoolExecutor(processes, context) as pool:
        every = list(pool.map(known, [tasks[row["task"]] for row in results], results, chunksize=4))
        train, held = ([one for one in every if is_held_out(one.row) == aside] for aside in (False, True))
        measured = list(measurements({one.task.id: one.places for one in every}, results))
        found = [
            one.card
            for one in findings(measured, device_of(results))
            if one.survives and not one.functions[0].startswith(FUSED)
        ]
        jobs = [(one, case) for one in train for case in training_cases(one)]
        made = [row for row in pool.map(chat, *zip(*jobs), chunksize=8) if row is not None]
        offers = {**retrieved(train, library_of(train)), **retrieved(held, library_of(every))}
        for one in train:  # BM25 often misses it, and then there is nothing to learn but "none"
            offer = offers[one.task.id]
            if offer and one.right and one.chance.random() < 0.7 and not one.own & {card.name for card in offer}:
                offer[random.Random(one.task.name).randrange(len(offer))] = one.right[0]
        picks = list(pool.map(selecting, train, [offers[one.task.id] for one in train], chunksize=8))
        write_rows(folder / "cards.jsonl", [*made, *picks])
        aside = [one for one in held if len(held_out_cases(one, found, ())) > 1]
        prompts = pool.map(_prompts, aside, [found] * len(aside), [offers[one.task.id] for one in aside], chunksize=4)
        write_rows(folder / HELD_OUT, [row for row in prompts if row is not None])
    recall = [bool(one.own & {card.name for card in offers[one.task.id]}) for one in aside if one.right]
    print(
        f"{len(made)} writing rows {dict(Counter(row['kind'] for row in made))}, {len(picks)} selecting ones; {len(found)} findings"
    )
    print(
        f"{len(aside)} tasks set aside have a card; BM25 offers the right one among {OFFERED} for {sum(recall)} of {len(recall)}"
    )


def _prompts(one: Known, found: Sequence[ChoiceCard], offered: Sequence[ChoiceCard]) -> Row:
    chats = {case.kind: chat(one, case) for case in held_out_cases(one, found, offered)}
    some = [change for change in one.task.variants if (change.place, change.label) in one.choices]
    return {
        **{key: one.row[key] for key in ("task", "name", "family", "dtype", "structure", "gain")},
        "chats": {kind: made for kind, made in chats.items() if made is not None},
        "select": selecting(one, offered),
        "offered": [asdict(card) for card in offered],
        "right": sorted(one.own),
        "oracle": oracle(one.task, one.row),
        "random": changed(one.task.answer, [one.chance.choice(some)] if some else []),
        "row": one.row,
        "sweep": one.task.to_json(),
    }


# answer


@app.command()
def answer(
    folder: Folder,
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="As it was before.")] = "embedded",
    taught: Annotated[str, typer.Option(help="The model that was taught; else the folder's.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = LONGEST_ANSWER,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")] = 0,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """The models' greedy answers with every kind of card, and how often they are word for word what the cards ask for."""
    held = rows_of(folder / HELD_OUT)[: limit or None]
    taught = taught or f"local:{folder / 'cards' / 'model'}"
    picked = _generated(taught, device, [row["select"] for row in held], 256)
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        told = list(pool.map(_with_selected, held, picked, chunksize=4))
        for row, (chosen, _) in zip(held, told):
            if chosen is not None:
                row["chats"][SELECTOR] = chosen
        _tell_selections(held, [names for _, names in told])
        ways = {kind: (taught, kind) for kind in (*WRITTEN, SELECTOR)} | {
            BEFORE: (model, NONE),
            "before, right card": (model, RIGHT),
        }
        made: list[Row] = []
        for spec in dict.fromkeys(spec for spec, _ in ways.values()):
            asked = [
                (row, way, row["chats"][kind])
                for way, (of, kind) in ways.items()
                if of == spec
                for row in held
                if kind in row["chats"]
            ]
            texts = _generated(spec, device, [one for _, _, one in asked], tokens)
            sources = list(pool.map(read_answer, texts, [row["sweep"]["source"] for row, _, _ in asked], chunksize=4))
            made += [
                {"task": row["task"], "way": way, "text": text, "source": source}
                for (row, way, _), text, source in zip(asked, texts, sources)
            ]
            _tell_obedience(asked, texts)
    write_rows(folder / ANSWERS, made)


def _generated(spec: str, device: str, chats: Sequence[Row], tokens: int) -> list[str]:
    begun = time.monotonic()
    texts = asyncio.run(generated(spec, device, [one["messages"][:-1] for one in chats], tokens))
    print(f"{len(texts)} answers of {spec} in {time.monotonic() - begun:.0f} s", flush=True)
    return texts


def _with_selected(row: Row, text: str) -> tuple[Row | None, list[str]]:
    """The writer's prompt with the cards that the selector named."""
    try:
        names = [choice.name for choice in selector.parse(text, PICKED)]
    except AnswerError:
        names = []
    offered = {card.name: card for card in map(ChoiceCard.from_json, row["offered"])}
    cards = tuple(offered[name] for name in names if name in offered)
    one = known(SweepTask.from_json(row["sweep"]), row["row"])
    return chat(one, Case(SELECTOR, HERE, cards)), [card.name for card in cards]


def _tell_selections(held: Sequence[Row], names: Sequence[Sequence[str]]) -> None:
    offered = [
        (row, some)
        for row, some in zip(held, names)
        if {*row["right"]} & {ChoiceCard.from_json(one).name for one in row["offered"]}
    ]
    right = sum(bool({*row["right"]} & {*some}) for row, some in offered)
    first = sum(ChoiceCard.from_json(row["offered"][0]).name in row["right"] for row, _ in offered)
    nothing = sum(not some for some in names)
    print(
        f"right card on offer for {len(offered)} tasks: the selector picks it for {right}, BM25 has it first for {first}; {nothing} without a pick"
    )


def _tell_obedience(asked: Sequence[tuple[Row, str, Row]], texts: Sequence[str]) -> None:
    """Beside what the cards ask for, how often that is not the rule's answer."""
    counts: dict[str, Counter[str]] = {}
    for (row, way, one), text in zip(asked, texts):
        wanted, rule = (code_of(each["messages"][-1]["content"]) for each in (one, row["chats"][NONE]))
        count = counts.setdefault(way, Counter())
        count["all"] += 1
        count["as the cards ask"] += code_of(text) == wanted
        count["asked for another answer"] += wanted != rule
        count["the rule's all the same"] += wanted != rule and code_of(text) == rule
    for way, count in counts.items():
        print(f"{way}: {dict(count)}", flush=True)


# report


@app.command()
def report(folder: Folder) -> None:
    """Print the table from what was measured, and what is compared on the same tasks."""
    found = rows_of(folder / TIMES)
    print("\n".join([*table(found), "", *contrasts(found)]))


def contrasts(found: Sequence[Row]) -> Iterator[str]:
    """One way over another on the tasks that have both, a wrong answer counted as the rule's."""
    timed = [row for row in found if row["times"][RULE]["ms"]]
    yield "| | tasks | faster, geometric mean, interval over tasks |"
    yield "|---|---|---|"
    for one, other in CONTRASTS:
        both = [row for row in timed if one in row["times"] and other in row["times"]]
        if both:
            yield f"| {one} over {other} | {len(both)} | {ends([(gain_of(row, one) or 1.0) / (gain_of(row, other) or 1.0) for row in both])} |"


if __name__ == "__main__":
    app()
