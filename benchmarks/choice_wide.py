"""Do turns that see what earlier settings gained find faster kernels than as many settings chosen at once? Where six settings are nearly all there
are, no difference can be seen, so a product's or an attention's tiles, warps, stages and pieces are varied together here: a hundred settings a task.

`write` takes tasks of the choice sweep that have such a place and writes the grid as variants; `choice_sweep.py run` measures them. `turns` needs no
GPU: a Gaussian process over a setting's numbers, whose mean is what like settings gained in other tasks, picks what promises most.
*Turns* read what was measured, a few settings at a time. *Blind* picks as many and reads nothing: it takes its own expectation for the
result. *At once* is the best by expectation, *drawn* is chance. All hand over the best that they measured, or the rule's own.

    PYTHONPATH=src python3 benchmarks/choice_wide.py write benchmarks/choice_sweep_h200 wide
    PYTHONPATH=src python3 benchmarks/choice_sweep.py run wide --device cuda --seconds 320
    PYTHONPATH=src python3 benchmarks/choice_wide.py turns wide
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from choice_distil import ends
from choice_folds import FOLDS, part_of
from choice_options import Processes
from choice_places import places_of
from choice_sweep import RESULTS, TASKS, Folder, rows_of, tasks_of
from choice_tasks import SweepTask
from numpy.typing import NDArray

from bottega.compiler.answer_choices import AnswerChange, changes_of
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.choice_gains import WORST, ChoiceGains, MeasuredChoice
from bottega.compiler.choice_places import ChoicePlace
from bottega.compiler.choices import SHARED_BYTES

ATTENTION = "scaled_dot_product_attention"
TILED = ("linear", "matmul", "mm", "bmm", "conv1d", "conv2d", "conv3d", ATTENTION)
WARPS, STAGES, PIECES = (4, 8), (2, 3, 4), (1, 2, 4, 8)
NUMBERS = ("tile0", "tile1", "tile2", "warps", "stages", "splits")
AT_ONCE, BLIND, TURNS, DRAWN, ORACLE = ARMS = ("at once", "blind", "turns", "drawn", "oracle")
BUDGETS = (4, 8, 16, 24)
A_TURN = 4
"""Settings that are measured together."""
SPREADS, LENGTHS, NOISES = (0.1, 0.2, 0.4), (1.0, 2.0, 4.0), (0.01, 0.03)
"""Of the process: of log-gains around the mean, doublings of a number over which they stay alike, and of timing. Chosen on the tasks learned from."""
Values = NDArray[np.float64]

app = typer.Typer(add_completion=False, help=__doc__)


# the grid


@app.command()
def write(
    sweep: Annotated[Path, typer.Argument(help="The choice sweep's folder.")],
    folder: Folder,
    count: Annotated[int, typer.Option(min=1, help="Tasks, evenly over functions and data types.")] = 72,
    most: Annotated[int, typer.Option(min=2, help="Settings of a task.")] = 96,
    processes: Processes = 2,
) -> None:
    """Write the tasks with their grids. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    some = [one for one in tasks_of(sweep) if any(change.place.split(" ")[0] in TILED for change in one.variants)]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        made = [one for one in pool.map(widened, some, itertools.repeat(most), chunksize=4) if one is not None]
    kinds: dict[tuple[str, str], list[SweepTask]] = defaultdict(list)
    for one in sorted(made, key=lambda one: hashlib.sha256(one.id.encode()).hexdigest()):
        kinds[one.variants[0].place.split(" ")[0], one.dtype].append(one)
    rounds = itertools.zip_longest(*kinds.values())
    chosen = list(itertools.islice((one for each in rounds for one in each if one is not None), count))
    (folder / TASKS).write_text("".join(json.dumps(one.to_json()) + "\n" for one in chosen), encoding="utf-8")
    print(f"{len(chosen)} of {len(made)} tasks, {sum(len(one.variants) for one in chosen)} settings")


def widened(one: SweepTask, most: int) -> SweepTask | None:
    """The task with the grid of its largest tiled place as variants; None where there are fewer than a third of `most`."""
    grids = [grid(changes, one.dtype) for changes in _tiled(one)]
    widest = max(grids, key=len, default=[])
    if len(widest) < most // 3:
        return None
    chosen = random.Random(one.id).sample(widest, min(most, len(widest)))
    return replace(one, variants=tuple(chosen), fused="")


def _tiled(one: SweepTask) -> Iterator[list[AnswerChange]]:
    for place, changes in changes_of(one.answer, recorded(one.source)).items():
        function = place.split(" ")[0]
        tiles = [change for change in changes if tile_of(change.label)]
        if function in TILED and tiles and len(tile_of(tiles[0].label)) == (2 if function == ATTENTION else 3):  # not depthwise
            yield tiles


def grid(changes: Sequence[AnswerChange], dtype: str) -> list[AnswerChange]:
    """Every tile of the place with all warps, stages and, where the rule thinks of it, pieces of the depth, if they fit into shared memory."""
    few = any("splits" in numbers_of(change.label) for change in changes)
    first, found = changes[0], list[AnswerChange]()
    own = "own=True, " if first.label.startswith("own=True") else ""
    tiles = dict.fromkeys(tile_of(change.label) for change in changes)
    for tile, warps, stages, pieces in itertools.product(tiles, WARPS, STAGES, PIECES if few else (1,)):
        if len(tile) == 3 and (tile[0] + tile[1]) * tile[2] * (4 if dtype == "float32" else 2) * stages > SHARED_BYTES:
            continue
        label = f"{own}tile={tile}, warps={warps}, stages={stages}" + (f", splits={pieces}" if few else "")
        spans = tuple((start, end, text.replace(first.label, label)) for start, end, text in first.spans)
        found.append(AnswerChange(first.place, label, spans))
    return found


def tile_of(label: str) -> tuple[int, ...]:
    tile = numbers_of(label).get("tile", ())
    return tile if isinstance(tile, tuple) else ()


def numbers_of(label: str) -> dict[str, int | bool | tuple[int, ...]]:
    """`tile=(128, 64, 32), warps=4` as numbers by name."""
    call = ast.parse(f"dict({label})", mode="eval").body if "=" in label else None
    return {word.arg or "": ast.literal_eval(word.value) for word in call.keywords} if isinstance(call, ast.Call) else {}


# turns


@dataclass(frozen=True)
class WideTask:
    id: str
    dtype: str
    place: ChoicePlace
    labels: tuple[str, ...]
    gains: Values
    """Logs, over the rule's own."""

    @property
    def points(self) -> Values:
        return np.array([point(label) for label in self.labels])


def point(label: str) -> list[float]:
    """A setting's numbers as doublings."""
    values = numbers_of(label)
    values |= {f"tile{number}": size for number, size in enumerate(tile_of(label))}
    return [math.log2(int(value)) if isinstance(value := values.get(name, 1), int) else 0.0 for name in NUMBERS]


@dataclass(frozen=True)
class Process:
    """A Gaussian process over settings."""

    spread: float
    length: float
    noise: float

    def alike(self, one: Values, other: Values) -> Values:
        apart = ((one[:, None] - other[None]) ** 2).sum(-1) / self.length**2
        return np.asarray(self.spread**2 * np.exp(-apart / 2), float)

    def posterior(self, points: Values, mean: Values, known: Sequence[int], values: Values) -> tuple[Values, Values]:
        """Means and deviations of all points, given the values of those that are known."""
        if not len(known):
            return mean, np.full(len(points), self.spread)
        here = self.alike(points[known], points[known]) + self.noise**2 * np.eye(len(known))
        there = self.alike(points, points[known])
        solved = np.linalg.solve(here, there.T).T
        variance = self.spread**2 - (solved * there).sum(1)
        return mean + solved @ (values - mean[known]), np.sqrt(np.maximum(variance, 1e-12))

    def surprise(self, points: Values, mean: Values, values: Values) -> float:
        """Minus the log-likelihood of what was measured."""
        within = self.alike(points, points) + self.noise**2 * np.eye(len(points))
        off = values - mean
        return float(0.5 * (off @ np.linalg.solve(within, off) + np.linalg.slogdet(within)[1]))


def improvement(means: Values, deviations: Values, best: float) -> Values:
    """Expected, over the best so far."""
    away = (means - best) / deviations
    below = np.array([0.5 * (1 + math.erf(one / math.sqrt(2))) for one in away])
    return np.asarray((means - best) * below + deviations * np.exp(-(away**2) / 2) / math.sqrt(2 * math.pi), float)


def picked(process: Process, task: WideTask, mean: Values, budget: int, a_turn: int) -> list[int]:
    """So many settings, `a_turn` at a time; within a turn, and where a turn is the whole budget, what was picked counts as its own expectation."""
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < min(budget, len(task.labels)):
        best, fresh = max([0.0, *values]), list[int]()
        believed = list(values)
        for _ in range(min(a_turn, budget - len(chosen), len(task.labels) - len(chosen))):
            means, deviations = process.posterior(task.points, mean, [*chosen, *fresh], np.array(believed))
            hope = improvement(means, deviations, best)
            hope[[*chosen, *fresh]] = -1.0
            fresh.append(int(hope.argmax()))
            believed.append(float(means[fresh[-1]]))
        chosen += fresh
        values += [float(task.gains[one]) for one in fresh]
    return chosen


def handed_over(task: WideTask, chosen: Sequence[int]) -> float:
    return max([0.0, *(float(task.gains[one]) for one in chosen)])


def expectations(task: WideTask, gains: ChoiceGains, device: str) -> Values:
    return np.array([math.log(gains.expected(device, task.dtype, task.place, label)) for label in task.labels])


def fitted(tasks: Sequence[WideTask], device: str) -> Process:
    """What explains the tasks best, each with the expectation that the others give."""
    halves = [[one for one in tasks if part_of(one.id, "half", 2) == half] for half in (0, 1)]
    memories = [memory(halves[1 - half], device) for half in (0, 1)]
    shown = [(one.points, expectations(one, memories[half], device), one.gains) for half in (0, 1) for one in halves[half]]
    every = [Process(*values) for values in itertools.product(SPREADS, LENGTHS, NOISES)]
    return min(every, key=lambda process: sum(process.surprise(*one) for one in shown))


def memory(tasks: Sequence[WideTask], device: str) -> ChoiceGains:
    return ChoiceGains(
        MeasuredChoice(device, one.dtype, one.place.function, one.place.sizes, label, math.exp(gain))
        for one in tasks
        for label, gain in zip(one.labels, one.gains)
    )


@app.command()
def turns(folder: Folder, draws: int = 20) -> None:
    """The best of as many settings, by arm, on tasks that were not learned from."""
    tasks, device = tasks_in(folder), "here"
    found: dict[str, dict[int, list[float]]] = {arm: defaultdict(list) for arm in ARMS}
    for fold in range(FOLDS):
        own = [one for one in tasks if part_of(one.id, "wide", FOLDS) != fold]
        process, gains = fitted(own, device), memory(own, device)
        for task in (one for one in tasks if part_of(one.id, "wide", FOLDS) == fold):
            mean, chance = expectations(task, gains, device), random.Random(task.id)
            for budget in BUDGETS:
                size = min(budget, len(task.labels))
                chosen = {
                    AT_ONCE: list(np.argsort(-mean, kind="stable")[:size]),
                    BLIND: picked(process, task, mean, budget, budget),
                    TURNS: picked(process, task, mean, budget, A_TURN),
                    ORACLE: range(len(task.labels)),
                }
                for arm, some in chosen.items():
                    found[arm][budget].append(handed_over(task, some))
                drawn = [handed_over(task, chance.sample(range(len(task.labels)), size)) for _ in range(draws)]
                found[DRAWN][budget].append(sum(drawn) / len(drawn))
        print(f"fold {fold}: {process}")
    print("\n".join(table(found, len(tasks))))


def table(found: dict[str, dict[int, list[float]]], count: int) -> Iterator[str]:
    yield f"\n{count} tasks, the best of so many settings over the rule's own; turns of {A_TURN}\n"
    yield f"| | {' | '.join(map(str, BUDGETS))} |"
    yield f"|---|{'---|' * len(BUDGETS)}"
    for arm, by in found.items():
        yield f"| {arm} | {' | '.join(ends([math.exp(one) for one in by[budget]]) for budget in BUDGETS)} |"
    for arm in (AT_ONCE, BLIND, DRAWN):
        ratios = [[math.exp(a - b) for a, b in zip(found[TURNS][budget], found[arm][budget])] for budget in BUDGETS]
        yield f"| turns over {arm} | {' | '.join(map(ends, ratios))} |"


def tasks_in(folder: Path) -> list[WideTask]:
    """Those that were measured, and where their place's sizes can be read."""
    by_id, made = {one.id: one for one in tasks_of(folder)}, []
    for row in rows_of(folder / RESULTS):
        one = by_id.get(row["task"])
        variants = [variant for variant in row["variants"] if "tile" in numbers_of(variant["label"])]
        if one is None or not row["rule_ms"] or not variants:
            continue
        place = places_of(one).get(variants[0]["place"])
        if place is not None:
            logs = [
                math.log(max(WORST, row["rule_ms"] / variant["ms"])) if variant["ms"] else math.log(WORST)
                for variant in variants
            ]
            made.append(WideTask(one.id, one.dtype, place, tuple(variant["label"] for variant in variants), np.array(logs)))
    return made


if __name__ == "__main__":
    app()
