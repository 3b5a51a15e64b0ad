"""What retrieval is worth, without a model: cards are made of findings of one half of the sweep's tasks, and on the other half the card that each
way of choosing puts first is scored by the measured time of the variant that it advises. Then the halves change places, and all of it is done for
several splits, since findings differ with the split: a task's figure is the geometric mean over them.

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
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from choice_card_rows import HERE, PROCESSORS, query_of
from choice_cards import ChoiceCard, advised_gain
from choice_distil import ends
from choice_findings import CHOOSING, Measured, chosen, device_of, measurements
from choice_places import fused_place, places_of
from choice_sweep import RESULTS, Row, geometric_mean, rows_of, tasks_of
from choice_tasks import SweepTask

from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_places import ChoicePlace
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

Gains = dict[str, float | None]
"""By the way of choosing a card; None where its advice changes nothing."""


@dataclass(frozen=True)
class Measurements:
    """One task of the sweep: its places, its workload, and what every variant gains."""

    task: SweepTask
    row: Row
    places: Mapping[str, ChoicePlace]
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


def half_of(task: str, split: int) -> int:
    return int(hashlib.sha256(f"retrieval {split} {task}".encode()).hexdigest(), 16) % 2


def cards_of(measured: Iterable[Measured], split: int, half: int, device: str) -> list[ChoiceCard]:
    """Findings of one half; the other is not looked at."""
    own = [replace(one, part=CHOOSING) for one in measured if half_of(one.task, split) == half]
    return [found.card for found in chosen(own, device)]


def gains(tasks: Sequence[Measurements], cards: Sequence[ChoiceCard]) -> Iterator[Gains]:
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
            checked = first(replace(any_state, workload=partial(getattr, one, "workload")))
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


def table(found: Sequence[Sequence[Gains]]) -> Iterator[str]:
    """Of every task its gains, one for each split."""
    means = [{way: geometric_mean([one[way] or 1.0 for one in some]) for way in some[0]} for some in found]
    every = [one for some in found for one in some]
    yield "| card | over the rule, geometric mean, interval over tasks | of 100 tasks it changes | and makes faster, slower by 2 % |"
    yield "|---|---|---|---|"
    for way in means[0]:
        changed = [gain for one in every if (gain := one[way]) is not None]
        shares = [
            100 * sum(wanted) / len(every)
            for wanted in ([True] * len(changed), [g > 1.02 for g in changed], [g < 0.98 for g in changed])
        ]
        yield f"| {way} | {ends([one[way] for one in means])} | {shares[0]:.0f} | {shares[1]:.0f}, {shares[2]:.0f} |"
    yield ""
    yield "| | over all tasks | over tasks where they differ | in single splits |"
    yield "|---|---|---|---|"
    for one, other in CONTRASTS:
        ratios = [row[one] / row[other] for row in means]
        apart = [ratio for ratio in ratios if ratio != 1.0]
        splits = [geometric_mean([(each[one] or 1.0) / (each[other] or 1.0) for each in split]) for split in zip(*found)]
        where = f"{ends(apart)}, {len(apart)} tasks" if apart else ""
        yield f"| {one} over {other} | {ends(ratios)} | {where} | {min(splits):.3f} to {max(splits):.3f} |"


def main(
    folder: Annotated[Path, typer.Argument(help="The sweep's.")],
    processes: Annotated[int, typer.Option(min=1)] = 2,
    splits: Annotated[int, typer.Option(min=1, help="So many ways to halve the tasks.")] = 10,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of the sweep; 0 for all.")] = 0,
) -> None:
    tasks = {one.id: one for one in tasks_of(folder)}
    rows = [row for row in rows_of(folder / RESULTS) if row.get("rule_ms") and row["task"] in tasks][: limit or None]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        every = list(pool.map(read_task, [tasks[row["task"]] for row in rows], rows, chunksize=8))
    measured = list(measurements({one.task.id: one.places for one in every}, rows))
    found: dict[str, list[Gains]] = {one.task.id: [] for one in every}
    counts: list[int] = []
    for split in range(splits):
        for half in (0, 1):
            cards = cards_of(measured, split, half, device_of(rows))
            scored = [one for one in every if half_of(one.task.id, split) != half]
            for one, gain in zip(scored, gains(scored, cards)):
                found[one.task.id].append(gain)
            counts.append(len(cards))
    print(f"{len(every)} tasks, {splits} splits; {min(counts)} to {max(counts)} cards of a half")
    print("\n".join(["", *table(list(found.values()))]))


if __name__ == "__main__":
    typer.run(main)
