"""Can a selector learn to choose a card by what its advice was worth? The library's cards are statements of the sweep with their evidence; for every
task BM25 offers its first ones whose conditions hold, and the model picks one or none. A pick's speed is in the sweep's table, so nothing is timed
anew: `choice_policy.py` learns and reports.

No task is offered a card that it helped to find or to bear out. Controls beside those of `choice_policy.py`: BM25's first card, its first whose
conditions hold, and the one of the surest evidence.

    PYTHONPATH=src python3 benchmarks/choice_selector.py benchmarks/choice_sweep_h200 selector --processes 2
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn selector --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_policy.py report selector
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import query_of
from choice_cards import ChoiceCard
from choice_findings import device_of
from choice_folds import FOLDS, fold_of, measured, part_of, rows_file
from choice_growth import Proposal, Tried, proposals
from choice_learning import WORST
from choice_options import Folder, Limit, Processes
from choice_policy import FACTS, described
from choice_retrieval import BM25, CHECKED, Measurements, read_task
from choice_sweep import Row
from choice_tasks import SweepTask
from figure import write_rows

from bottega.skills.library import Library
from bottega.skills.query import Query
from bottega.skills.retrieve import EVERY_STATE, Filter

NO_CARD = "none"
SUREST = "the card of the surest evidence"


def main(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    offered: Annotated[int, typer.Option(min=1, help="Cards that BM25 offers for a task, at most.")] = 8,
    processes: Processes = 2,
    limit: Limit = 0,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows, every = measured(sweep, read, processes, limit)
    for fold in range(FOLDS):
        made = fold_rows(every, fold, offered, device_of(rows))
        write_rows(rows_file(folder, fold), made)
        print(f"fold {fold}: {len(made)} tasks, {sum(len(row['options']) for row in made)} options", flush=True)


def read(task: SweepTask, row: Row) -> tuple[Measurements, Query]:
    return read_task(task, row), query_of(task)


def fold_rows(every: Sequence[tuple[Measurements, Query]], fold: int, offered: int, device: str) -> list[Row]:
    """Tasks to learn from are cut into thirds: one is offered what the other two propose and bear out."""
    held = [one for one in every if fold_of(one[0].task.id) == fold]
    own = [one for one in every if fold_of(one[0].task.id) != fold and one[0].row["structure"] != "builtin"]
    tried = [each for one, _ in own for each in tried_of(one)]
    made = list(offers(held, list(proposals(tried, device)), offered, held_out=True))
    for third in range(3):
        others = [one for one in tried if third_of(one.task) != third]
        cards = list(proposals(others, device, partial(is_third, (third + 1) % 3)))
        made += offers([one for one in own if third_of(one[0].task.id) == third], cards, offered, held_out=False)
    return made


def third_of(task: str) -> int:
    return part_of(task, "third", 3)


def is_third(third: int, task: str) -> int:
    return int(third_of(task) == third)


def tried_of(one: Measurements) -> Iterator[Tried]:
    """All that the sweep measured."""
    for variant in one.row["variants"]:
        if variant["place"] in one.places:
            gain = math.log(one.row["rule_ms"] / variant["ms"]) if variant["ms"] else WORST
            yield Tried(one.task.id, one.places[variant["place"]], one.row["dtype"], variant["label"], max(WORST, gain))


def offers(
    tasks: Sequence[tuple[Measurements, Query]], cards: Sequence[Proposal], offered: int, held_out: bool
) -> Iterator[Row]:
    """Of each task the prompt, the cards that BM25 offers of those whose conditions hold, and the log of what each gains; no card is first.
    `advises`: of each card the writer's options that follow it. `beside`: BM25's first card, whether its conditions hold or not."""
    by_name = {one.card.name: one for one in cards}
    any_state = Filter(EVERY_STATE, "triton", "cuda")
    with tempfile.TemporaryDirectory() as place:
        library = Library(Path(place) / "library")
        library.add_many([one.card.skill() for one in by_name.values()])
        for one, query in tasks:
            holding = library.search(query, offered, replace(any_state, workload=partial(getattr, one, "workload")))
            found = [by_name[hit.skill.name] for hit in holding]
            first = [by_name[hit.skill.name] for hit in library.search(query, 1, any_state)]
            gains = [0.0, *(_gain(one, card) for card in found)]
            sure = [0.0, *(card.low or 0.0 for card in found)]
            yield {
                **{key: one.row[key] for key in FACTS}, "held_out": held_out, "prompt": f"{described(one.task, one.places)}\nCard:",
                "options": [NO_CARD, *(card.evidence for card in found)], "gains": gains, "gain": math.exp(max(gains)),
                "advises": [[], *(advised(one, card.card) for card in found)],
                "controls": {CHECKED: min(1, len(found)), SUREST: sure.index(max(sure))},
                "beside": {BM25: {"gain": _gain(one, first[0]) if first else 0.0, "card": first[0].evidence if first else NO_CARD,
                                  "advises": advised(one, first[0].card) if first else []}},
            }  # fmt: skip


def _gain(one: Measurements, card: Proposal) -> float:
    """Log of what following its advice gains."""
    return max(WORST, math.log(one.gain(card.card) or 1.0))


def advised(one: Measurements, card: ChoiceCard) -> list[int]:
    """The places among a writer's options, of which the rule is the first."""
    places = [one.places.get(variant["place"]) for variant in one.row["variants"]]
    labels = [variant["label"] for variant in one.row["variants"]]
    return [
        at + 1
        for at, (place, label) in enumerate(zip(places, labels))
        if place and label == card.choice and place.function in card.functions
    ]


if __name__ == "__main__":
    typer.run(main)
