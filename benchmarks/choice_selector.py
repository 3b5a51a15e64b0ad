"""Can a selector learn to choose a card by what its advice was worth? The library's cards are findings of the sweep; for every task BM25 offers
its first ones, and the model picks one or none. A pick's speed is in the sweep's table, so nothing is timed anew: `choice_policy.py` learns and
reports.

No task is offered a card that it helped to find: cards of one half of the tasks to learn from are offered to the other half, and the tasks set aside
get those of both. Controls beside those of `choice_policy.py`: BM25's first card, and its first whose conditions hold.

    PYTHONPATH=src python3 benchmarks/choice_selector.py benchmarks/choice_sweep_h200 selector --processes 2
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn selector gradient --device cuda
    PYTHONPATH=src python3 benchmarks/choice_policy.py report selector
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import query_of
from choice_cards import ChoiceCard
from choice_distil import KINDS, MODULES, is_held_out, write_rows
from choice_findings import CHOOSING, Measured, chosen, device_of, measurements
from choice_policy import FACTS, ROWS, WORST, prompt_text
from choice_retrieval import BM25, CHECKED, Measurements, half_of, read_task
from choice_sweep import RESULTS, Row, rows_of, tasks_of

from bottega.skills.library import Library
from bottega.skills.retrieve import EVERY_STATE, Filter

NO_CARD = "none"


def main(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Annotated[Path, typer.Argument(help="Where the rows go.")],
    split: Annotated[str, typer.Option(help=f"What is set aside: {MODULES}, or whole {KINDS} of them.")] = MODULES,
    offered: Annotated[int, typer.Option(min=1, help="Cards that BM25 offers for a task, at most.")] = 8,
    processes: Annotated[int, typer.Option(min=1)] = 2,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    rows = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        every = list(pool.map(read_task, [tasks[row["task"]] for row in rows], rows, chunksize=8))
    measured = list(measurements({one.task.id: one.places for one in every}, rows))
    aside = {one.task.id for one in every if is_held_out(one.row, split)}
    sides = {one.task.id: 2 if one.task.id in aside else half_of(one.task.id, 0) for one in every}
    made: list[Row] = []
    for side in (0, 1, 2):
        cards = cards_of([one for one in measured if sides[one.task] not in (side, 2)], device_of(rows))
        own = [one for one in every if sides[one.task.id] == side]
        made += offers(own, cards, offered, held_out=side == 2)
        print(f"{len(cards)} cards for {len(own)} tasks{' set aside' if side == 2 else ''}", flush=True)
    write_rows(folder / ROWS, made)
    print(f"{sum(len(row['options']) for row in made)} options")


def cards_of(measured: Sequence[Measured], device: str) -> list[ChoiceCard]:
    return [found.card for found in chosen([replace(one, part=CHOOSING) for one in measured], device)]


def offers(tasks: Sequence[Measurements], cards: Sequence[ChoiceCard], offered: int, held_out: bool) -> Iterator[Row]:
    """Of each task the prompt, the cards that BM25 offers, and the log of what each gains; no card is the first option."""
    by_name = {card.name: card for card in cards}
    any_state = Filter(EVERY_STATE, "triton", "cuda")
    with tempfile.TemporaryDirectory() as place:
        library = Library(Path(place) / "library")
        library.add_many([card.skill() for card in by_name.values()])
        for one in tasks:
            query = query_of(one.task)
            found = [by_name[hit.skill.name] for hit in library.search(query, offered, any_state)]
            holding = library.search(query, offered, replace(any_state, workload=lambda one=one: one.workload))
            names = [card.name for card in found]
            first = next((names.index(hit.skill.name) + 1 for hit in holding if hit.skill.name in names), 0)
            options = [NO_CARD, *(f"{' or '.join(card.dtypes)} {card.where}: {card.choice}" for card in found)]
            gains = [0.0, *(max(WORST, math.log(one.gain(card) or 1.0)) for card in found)]
            yield {
                **{key: one.row[key] for key in FACTS}, "held_out": held_out, "prompt": prompt_text(one.task, options), "options": options,
                "gains": gains, "gain": math.exp(max(gains)), "controls": {BM25: min(1, len(found)), CHECKED: first},
            }  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
