"""What retrieval is worth, without a model: cards are made of findings of one half of the sweep's tasks, and on the other half the card that each
way of choosing puts first is scored by the measured time of the variant that it advises. Then the halves change places.

No model wrote these kernels. Advice is followed at every place of its function, whether the card's conditions hold there or not, as the taught model
follows it; where no such variant was measured, or it was wrong, the rule's answer stands.

    PYTHONPATH=src python3 benchmarks/choice_retrieval.py benchmarks/choice_sweep_h200 --processes 2
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import HERE, PROCESSORS, query_of
from choice_cards import ChoiceCard, advised_gain
from choice_distil import ends
from choice_findings import CHOOSING, Measured, chosen, device_of, measurements
from choice_places import Place, fused_place, places_of
from choice_sweep import RESULTS, Row, rows_of, tasks_of
from choice_tasks import SweepTask

from bottega.compiler.callgraph_names import recorded
from bottega.compiler.workload import workload_of
from bottega.core.device import DeviceFacts
from bottega.core.workload import Workload
from bottega.skills.conditions import holds
from bottega.skills.library import Library
from bottega.skills.query import Query
from bottega.skills.retrieve import EVERY_STATE, Filter

NONE, BM25, CHECKED, HOLDING, ANY, WRONG, ORACLE, WINNER = (
    "no card", "BM25's first card", "BM25's first whose conditions hold", "any card whose conditions hold", "any card", "wrong advice",
    "oracle: the best card", "no card: the sweep's winner",
)  # fmt: skip
CONTRASTS = ((CHECKED, BM25), (CHECKED, NONE), (CHECKED, ANY), (CHECKED, HOLDING), (CHECKED, WRONG), (BM25, NONE), (BM25, ANY))


@dataclass(frozen=True)
class Measurements:
    """One task of the sweep: its places, its workload, and what every variant gains."""

    task: SweepTask
    row: Row
    places: Mapping[str, Place]
    workload: Workload

    def gain(self, card: ChoiceCard | None) -> float | None:
        """None where its advice changes nothing."""
        return None if card is None else advised_gain(self.row, self.places, card)

    def others(self, card: ChoiceCard) -> list[float]:
        """Of the other choices at the card's places."""
        labels = dict.fromkeys(one["label"] for one in self.row["variants"])
        found = (self.gain(replace(card, choice=label)) for label in labels if label != card.choice)
        return [gain for gain in found if gain is not None]


def read_task(task: SweepTask, row: Row) -> Measurements:
    device = DeviceFacts("cuda", HERE, *PROCESSORS[HERE], 0.0)
    return Measurements(task, row, {**places_of(task), **fused_place(task)}, workload_of(recorded(task.source), device))


def half_of(task: str) -> int:
    return int(hashlib.sha256(f"retrieval {task}".encode()).hexdigest(), 16) % 2


def cards_of(measured: Iterable[Measured], half: int, device: str) -> list[ChoiceCard]:
    """Findings of one half; the other is not looked at."""
    own = [replace(one, part=CHOOSING) for one in measured if half_of(one.task) == half]
    return [found.card for found in chosen(own, device)]


def gains(tasks: Sequence[Measurements], cards: Sequence[ChoiceCard]) -> Iterator[dict[str, float | None]]:
    """Of each task, by the way of choosing a card; None where its advice changes nothing."""
    by_name = {card.name: card for card in cards}
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder) / "library")
        library.add_many([card.skill() for card in by_name.values()])
        for one in tasks:
            chance = random.Random(one.task.id)
            query = query_of(one.task)

            def first(only: Filter, query: Query = query) -> ChoiceCard | None:
                hits = library.search(query, 1, only)
                return by_name[hits[0].skill.name] if hits else None

            any_state = Filter(EVERY_STATE, "triton", "cuda")
            checked = first(replace(any_state, workload=lambda one=one: one.workload))
            holding = [card for card in cards if holds(card.applies_to, one.workload)]
            others = one.others(checked) if checked is not None else []
            best = max((one.gain(card) or 1.0 for card in cards), default=1.0)
            yield {
                NONE: None,
                BM25: one.gain(first(any_state)),
                CHECKED: one.gain(checked),
                HOLDING: one.gain(chance.choice(holding)) if holding else None,
                ANY: one.gain(chance.choice(cards)) if cards else None,
                WRONG: chance.choice(others) if others else None,
                ORACLE: best if best > 1 else None,
                WINNER: one.row["gain"] if one.row["gain"] > 1 else None,
            }


def table(found: Sequence[Mapping[str, float | None]]) -> Iterator[str]:
    yield "| card | over the rule, geometric mean, interval over tasks | tasks that it changes | of these faster by 2 %, slower by 2 % |"
    yield "|---|---|---|---|"
    for way in found[0]:
        every = [row[way] for row in found]
        changed = [gain for gain in every if gain is not None]
        better, worse = sum(gain > 1.02 for gain in changed), sum(gain < 0.98 for gain in changed)
        yield f"| {way} | {ends([gain or 1.0 for gain in every])} | {len(changed)} of {len(every)} | {better}, {worse} |"
    yield ""
    yield "| | over all tasks | over tasks where they differ |"
    yield "|---|---|---|"
    for one, other in CONTRASTS:
        ratios = [(row[one] or 1.0) / (row[other] or 1.0) for row in found]
        apart = [ratio for ratio in ratios if ratio != 1.0]
        yield f"| {one} over {other} | {ends(ratios)} | {f'{ends(apart)}, {len(apart)} tasks' if apart else ''} |"


def main(
    folder: Annotated[Path, typer.Argument(help="The sweep's.")],
    processes: Annotated[int, typer.Option(min=1)] = 2,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
) -> None:
    tasks = {one.id: one for one in tasks_of(folder)}
    rows = [row for row in rows_of(folder / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        every = list(pool.map(read_task, [tasks[row["task"]] for row in rows], rows, chunksize=8))
    measured = list(measurements({one.task.id: one.places for one in every}, rows))
    found: list[dict[str, float | None]] = []
    for half in (0, 1):
        cards = cards_of(measured, half, device_of(rows))
        scored = [one for one in every if half_of(one.task.id) != half]
        found += gains(scored, cards)
        print(f"{len(cards)} cards of {len(every) - len(scored)} tasks, scored on {len(scored)} others")
        for card in cards:
            print(f"  {' or '.join(card.dtypes)}, {card.where}: {card.choice}")
    print("\n".join(["", *table(found)]))


if __name__ == "__main__":
    typer.run(main)
