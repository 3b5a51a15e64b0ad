"""Can a model choose, where nothing but the choice is asked of it? The compiler's answer stands; the model picks one of the sweep's variants or keeps
the rule's choice. A pick's speed is in the sweep's table, so that nothing is timed anew and a wrong kernel cannot be written.

Two ways to learn from the same tasks and for the same number of steps: imitation of the winner, and policy gradient with the measured gain as the
reward. Control: rewards that were shuffled among a task's options. The tasks are cut into four folds, and every task is scored once by a model that
has not seen it; built-in ones are never learned from. Rate, softness and epoch are chosen by a sixth of the tasks to learn from, of as many settings
for each way.

    PYTHONPATH=src python3 benchmarks/choice_policy.py rows benchmarks/choice_sweep_h200 policy
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn policy --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_policy.py report policy

`choice_selector.py` writes the same rows of cards.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from choice_distil import write_rows
from choice_learning import (
    FOLDS,
    ORACLE,
    RANDOM,
    SET_ASIDE,
    SOFT,
    VALIDATED,
    WAYS,
    WORST,
    Chooser,
    Steps,
    all_scores,
    batches,
    objective,
    parts,
    report_lines,
    rows_file,
    score_rows,
    scores_file,
    steps_of,
    told,
    worth,
    write_scores,
)
from choice_places import Place, fused_place, places_of
from choice_sweep import RESULTS, Row, rows_of, tasks_of
from choice_tasks import SweepTask
from figure import Device, where

RULE = "rule"
FACTS = ("task", "name", "family", "dtype", "structure")
MOST_OPERATORS = 12

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows and scores are kept.")]
Fold = Annotated[int, typer.Option(min=0, max=FOLDS - 1, help="The part that is set aside.")]
Model = Annotated[str, typer.Option(help="That learns.")]
Limit = Annotated[int, typer.Option(min=0, help="So many tasks of a part; 0 for all.")]
Rates = Annotated[str, typer.Option(help="Learning rates to try, separated by commas.")]
Epochs = Annotated[int, typer.Option(min=1, help="Of each rate.")]
Every = Annotated[int, typer.Option(min=1, help="Epochs after which a model is scored.")]


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """Write every task's prompt and options with what they gain, for every fold. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    found = [row for row in rows_of(sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        made = list(pool.map(asked, [tasks[row["task"]] for row in found], found, chunksize=4))
    for fold in range(FOLDS):
        write_rows(rows_file(folder, fold), of_fold(made, fold))
    print(f"{len(made)} tasks; {sum(len(row['options']) for row in made)} options")


def fold_of(task: str) -> int:
    return int(hashlib.sha256(f"fold {task}".encode()).hexdigest(), 16) % FOLDS


def of_fold(made: Sequence[Row], fold: int) -> list[Row]:
    """Built-in tasks of other folds are left out."""
    each = [{**row, "held_out": fold_of(row["task"]) == fold} for row in made]
    return [row for row in each if row["held_out"] or row["structure"] != "builtin"]


def asked(task: SweepTask, row: Row) -> Row:
    """Prompt, options, and the log of what each gains; the rule is the first option. `places`: where each option applies."""
    known = {**places_of(task), **fused_place(task)}
    options, gains = [RULE], [0.0]
    places: list[Row | None] = [None]
    for variant in row["variants"]:
        place = known.get(variant["place"]) or Place(variant["place"], variant["place"].split(" ")[0], {})
        options.append(option_text(place, variant["label"]))
        gains.append(max(WORST, math.log(row["rule_ms"] / variant["ms"])) if variant["ms"] else WORST)
        places.append({"change": place.change, "function": place.function, "sizes": place.sizes, "choice": variant["label"]})
    return {
        **{key: row[key] for key in (*FACTS, "gain")},
        "prompt": f"{described(task, known)}\nFastest:",
        "options": options,
        "gains": gains,
        "places": places,
    }


def option_text(place: Place, choice: str) -> str:
    """With sizes in powers of two, as that is what decides, and what one task can tell another."""
    sizes = " ".join(f"{name} 2^{round(math.log2(max(1, size)))}" for name, size in place.sizes.items() if name != "bytes")
    return f"{place.function}{f' ({sizes})' if sizes else ''}: {choice}"


def described(task: SweepTask, places: Mapping[str, Place]) -> str:
    """The task in few words: the call graph's text is ten times as long and teaches a small model nothing that these do not."""
    kept = {change.place: [task.answer[begin:end] for begin, end, _ in change.spans] for change in task.variants}
    lines = [f"NVIDIA H200, {task.dtype}, {task.family.removeprefix('builtin ')}: {', '.join(task.operators[:MOST_OPERATORS])}"]
    for name, place in places.items():
        sizes = ", ".join(f"{size} {value}" for size, value in place.sizes.items())
        now = next((text for text in kept.get(name, ()) if text.isdigit()), "")
        lines.append(f"{place.function}: {sizes}{f', now {now}' if now else ''}")
    return "\n".join(lines)


# learning


@app.command()
def learn(
    folder: Folder,
    fold: Fold = 0,
    ways: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(WAYS),
    device: Device = "cuda",
    model: Model = "embedded",
    epochs: Epochs = 8,
    every: Every = 2,
    rates: Rates = "1e-4,3e-4",
    seed: int = 0,
    limit: Limit = 0,
) -> None:
    """Learn one way after the other, and write what is gained on the tasks that are set aside. What is there already is left out."""
    train, validated, held = parts(folder, fold, limit)
    chooser = Chooser.open(model, device)
    for rate, which, way in product(map(float, rates.split(",")), (0, 1), ways.split(",")):
        setting = f"{rate:g}-{SOFT[way][which]:g}"
        path = scores_file(folder, way, fold, seed, setting)
        if path.exists():
            continue
        torch.manual_seed(seed)
        chooser.reset()
        steps = Steps(chooser, rate, epochs * steps_of(train))
        chance, begun, made = random.Random(seed), time.monotonic(), []
        for epoch in range(1, epochs + 1):
            for batch in batches(train, chance):
                gains = [torch.tensor(row["gains"], device=device) for row in batch]
                losses = [objective(way, *of, chance, SOFT[way][which]) for of in zip(chooser.scores(batch), gains)]
                steps.take(torch.stack(losses).mean())
            if epoch % every == 0 or epoch == epochs:
                for part, some in ((VALIDATED, validated), (SET_ASIDE, held)):
                    found = [worth(one, row["gains"]) for one, row in zip(chooser.judged(some), some)]
                    made += score_rows(way, fold, seed, f"{setting}, {epoch} epochs", part, some, found)
                print(
                    f"[{time.monotonic() - begun:.0f} s] fold {fold}, {way} {setting}, {steps.done} steps: {told(made)}",
                    flush=True,
                )
        write_scores(path, made)


# report


@app.command()
def report(folder: Folder) -> None:
    """Print what is gained on the tasks that were set aside."""
    held = [row for fold in range(FOLDS) for row in rows_of(rows_file(folder, fold)) if row["held_out"]]
    print("\n".join(report_lines(known_ways(held), all_scores(folder))))
    print(f"\n{where('cuda' if torch.cuda.is_available() else 'cpu')}")


def known_ways(held: Sequence[Row]) -> dict[str, dict[str, float]]:
    """What needs no model, by task."""
    found: dict[str, dict[str, float]] = {
        "the rule": {row["task"]: 0.0 for row in held},
        ORACLE: {row["task"]: math.log(max(1.0, row["gain"])) for row in held},
        RANDOM: {row["task"]: sum(row["gains"]) / len(row["gains"]) for row in held},
    }
    for row in held:
        for way, pick in row.get("controls", {}).items():
            found.setdefault(way, {})[row["task"]] = row["gains"][pick]
        for way, one in row.get("beside", {}).items():
            found.setdefault(way, {})[row["task"]] = one["gain"]
    return found


if __name__ == "__main__":
    app()
