"""Does it pay to measure first what gained at like places? Of the choice sweep's tasks the knobs' settings are put in order, the first few are
taken as measured, and the best of them counts, or the rule's own where none is better. All times are in the sweep's table, so nothing is timed anew.

`order` compares orders on tasks that were not learned from, in four folds; `growth` begins with nothing, takes the tasks one after the other and
learns from each what its search has measured; `pack` writes the file that comes along with Bottega.

    PYTHONPATH=src python3 benchmarks/choice_order.py order benchmarks/choice_sweep_h200
    PYTHONPATH=src python3 benchmarks/choice_order.py growth benchmarks/choice_sweep_h200
    PYTHONPATH=src python3 benchmarks/choice_order.py pack benchmarks/choice_sweep_h200 nvidia_h200.jsonl.xz
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from choice_folds import FOLDS, measured, part_of
from choice_options import Processes
from choice_places import places_of
from choice_sweep import Row, interval
from choice_tasks import FUSED, SweepTask

from bottega.compiler.choice_gains import ChoiceGains, MeasuredChoice
from bottega.compiler.choice_places import ChoicePlace

BUDGETS = (1, 2, 3, 4, 6, 8)
"""Settings that are measured."""
DEVICE = "NVIDIA H200"
RULE, DRAWN, LEARNED, SHUFFLED, ORACLE = ORDERS = ("the rule's", "drawn", "learned", "learned from shuffled gains", "oracle")

app = typer.Typer(add_completion=False, help=__doc__)
Sweep = Annotated[Path, typer.Argument(help="The sweep's folder.")]


@dataclass(frozen=True)
class Setting:
    place: ChoicePlace | None
    choice: str
    gain: float
    """Over the rule's; 0 where it is wrong."""


@dataclass(frozen=True)
class MeasuredTask:
    id: str
    dtype: str
    builtin: bool
    operators: str
    settings: tuple[Setting, ...]
    """In the rule's order."""

    @property
    def rows(self) -> list[MeasuredChoice]:
        return [
            MeasuredChoice(DEVICE, self.dtype, one.place.function, one.place.sizes, one.choice, one.gain)
            for one in self.settings
            if one.place is not None
        ]


@app.command()
def order(sweep: Sweep, processes: Processes = 2) -> None:
    """The best of the first few settings over the rule's own, by order, on tasks whose combination of operators was not learned from."""
    tasks = tasks_in(sweep, processes)
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for fold in range(FOLDS):
        own = [task for task in tasks if fold_of(task) != fold and not task.builtin]
        gains, shuffled = ChoiceGains(rows_of(own)), ChoiceGains(rows_of(with_shuffled_gains(own)))
        for task in (task for task in tasks if fold_of(task) == fold):
            for name, ordered in orders(task, gains, shuffled).items():
                for budget in BUDGETS:
                    found[name][budget].append(best_of(ordered, budget))
    print(f"{len(tasks)} tasks, {sum(len(task.settings) for task in tasks)} settings\n")
    print_table(found)
    for name in (RULE, DRAWN, SHUFFLED):
        print(f"\nlearned over {name}")
        print_row("", {budget: [a / b for a, b in zip(found[LEARNED][budget], found[name][budget])] for budget in BUDGETS})


@app.command()
def growth(sweep: Sweep, processes: Processes = 2, seeds: int = 1, budget: int = 3) -> None:
    """What the first few settings gain while the memory grows: each search measures that many, and the next one knows of them."""
    tasks = tasks_in(sweep, processes)
    quarters: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for seed in range(seeds):
        sequence = random.Random(seed).sample(tasks, len(tasks))
        gains, frozen = ChoiceGains(), ChoiceGains()
        for number, task in enumerate(sequence):
            quarter = 4 * number // len(sequence)
            ordered = by_gains(task, gains)
            for name, some in (
                ("grown", ordered),
                ("frozen after a quarter", by_gains(task, frozen)),
                ("empty", task.settings),
            ):
                quarters[name][quarter].append(best_of(some, budget))
            known = replace(task, settings=tuple(ordered[:budget]))
            for row in known.rows:
                gains.add(row)
                if not quarter:
                    frozen.add(row)
    print(f"{budget} settings of each task, {seeds} sequences of {len(tasks)} tasks; by quarters of the sequence\n")
    for name, values in quarters.items():
        print_row(name, values)
    for name in ("frozen after a quarter", "empty"):
        print_row(f"grown over {name}", {
            quarter: [a / b for a, b in zip(values, quarters[name][quarter])] for quarter, values in quarters["grown"].items()
        })  # fmt: skip


@app.command()
def pack(sweep: Sweep, out: Path, processes: Processes = 2) -> None:
    """Write what was measured as the file that comes along."""
    lines = [json.dumps({"device": DEVICE})]
    for row in rows_of(tasks_in(sweep, processes)):
        lines.append(json.dumps({key: value for key, value in row.to_json().items() if key != "device"}, separators=(",", ":")))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))
    print(f"{len(lines) - 1} measured choices, {out.stat().st_size >> 10} KiB")


def tasks_in(sweep: Path, processes: int) -> list[MeasuredTask]:
    """Those of which settings of knobs were measured; another structure is no knob."""
    return [task for task in measured(sweep, read, processes)[1] if task.settings]


def read(task: SweepTask, row: Row) -> MeasuredTask:
    places = places_of(task)
    settings = tuple(
        Setting(places.get(one["place"]), one["label"], round(row["rule_ms"] / one["ms"], 4) if one["ms"] else 0.0)
        for one in row["variants"]
        if one["place"] != FUSED
    )
    return MeasuredTask(task.id, row["dtype"], row["structure"] == "builtin", " ".join(sorted(set(row["operators"]))), settings)


def fold_of(task: MeasuredTask) -> int:
    """All tasks with the same operators are in one fold."""
    return part_of(task.operators, "operators", FOLDS)


def rows_of(tasks: Iterable[MeasuredTask]) -> list[MeasuredChoice]:
    return [row for task in tasks for row in task.rows]


def with_shuffled_gains(tasks: Sequence[MeasuredTask]) -> list[MeasuredTask]:
    """The control: within each task, whose gain is whose is left to chance."""
    chance, found = random.Random(0), []
    for task in tasks:
        gains = chance.sample([one.gain for one in task.settings], len(task.settings))
        found.append(replace(task, settings=tuple(replace(one, gain=gain) for one, gain in zip(task.settings, gains))))
    return found


def orders(task: MeasuredTask, gains: ChoiceGains, shuffled: ChoiceGains) -> Mapping[str, Sequence[Setting]]:
    chance = random.Random(int(hashlib.sha256(task.id.encode()).hexdigest(), 16))
    made: dict[str, Callable[[], Sequence[Setting]]] = {
        RULE: lambda: task.settings,
        DRAWN: lambda: chance.sample(task.settings, len(task.settings)),
        LEARNED: lambda: by_gains(task, gains),
        SHUFFLED: lambda: by_gains(task, shuffled),
        ORACLE: lambda: sorted(task.settings, key=lambda one: -one.gain),
    }
    return {name: made[name]() for name in ORDERS}


def by_gains(task: MeasuredTask, gains: ChoiceGains) -> list[Setting]:
    def promise(one: Setting) -> float:
        return gains.expected(DEVICE, task.dtype, one.place, one.choice) if one.place is not None else 1.0

    return sorted(task.settings, key=promise, reverse=True)


def best_of(ordered: Sequence[Setting], budget: int) -> float:
    return max(1.0, *(one.gain for one in ordered[:budget]))


def print_table(found: Mapping[str, Mapping[int, Sequence[float]]]) -> None:
    print(f"{'settings measured':32}" + "".join(f"{budget:>24}" for budget in BUDGETS))
    for name in ORDERS:
        print_row(name, found[name])


def print_row(name: str, values: Mapping[int, Sequence[float]]) -> None:
    cells = []
    for some in values.values():
        low, high = interval(list(some))
        cells.append(f"{math.exp(sum(map(math.log, some)) / len(some)):.3f} ({low:.3f} to {high:.3f})")
    print(f"{name:32}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    app()
