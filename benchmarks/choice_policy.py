"""Can a model choose, where nothing but the choice is asked of it? The compiler's answer stands; the model picks one of the sweep's variants or keeps
the rule's choice. A pick's speed is in the sweep's table, so that nothing is timed anew and a wrong kernel cannot be written.

Two ways to learn from the same tasks and for the same number of steps: imitation of the winner, and policy gradient with the measured gain as the
reward. Control: rewards that were shuffled among a task's options. On request (`--ways imitation,refined,longer`) the gradient, or as much imitation
again, begins with the model that has imitated. The tasks are cut into four folds, and every task is scored once by a model that
has not seen it; built-in ones are never learned from. Rate, softness and epoch are chosen by a sixth of the tasks to learn from, of as many settings
for each way.

    PYTHONPATH=src python3 benchmarks/choice_policy.py rows benchmarks/choice_sweep_h200 policy
    PYTHONPATH=src python3 benchmarks/choice_policy.py learn policy --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_policy.py report policy

`choice_selector.py` writes the same rows of cards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from choice_folds import FOLDS, measured, of_fold, parts, rows_file
from choice_learning import (
    GENTLER,
    IMITATION,
    SECOND,
    SOFT,
    WAYS,
    WORST,
    Chooser,
    Schedule,
    batches,
    epochs_of,
    gained,
    imitate,
    loss_of,
    steps_of,
)
from choice_options import Epochs, Every, Fold, Folder, Limit, Model, Processes, Rates
from choice_places import fused_place, places_of
from choice_scores import print_report, scores_file
from choice_sweep import Row
from choice_tasks import SweepTask
from figure import Device, write_rows

from bottega.compiler.choice_places import ChoicePlace

RULE = "rule"
FACTS = ("task", "name", "family", "dtype", "structure")
MOST_OPERATORS = 12

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def rows(sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")], folder: Folder, processes: Processes = 12) -> None:
    """Write every task's prompt and options with what they gain, for every fold. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    _, made = measured(sweep, asked, processes)
    for fold in range(FOLDS):
        write_rows(rows_file(folder, fold), of_fold(made, fold))
    print(f"{len(made)} tasks; {sum(len(row['options']) for row in made)} options")


def asked(task: SweepTask, row: Row) -> Row:
    """Prompt, options, and the log of what each gains; the rule is the first option. `places`: where each option applies."""
    known = {**places_of(task), **fused_place(task)}
    options, gains = [RULE], [0.0]
    places: list[Row | None] = [None]
    for variant in row["variants"]:
        place = known.get(variant["place"]) or ChoicePlace(variant["place"], variant["place"].split(" ")[0], {})
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


def option_text(place: ChoicePlace, choice: str) -> str:
    """With sizes in powers of two, as that is what decides, and what one task can tell another."""
    sizes = " ".join(f"{name} 2^{round(math.log2(max(1, size)))}" for name, size in place.sizes.items() if name != "bytes")
    return f"{place.function}{f' ({sizes})' if sizes else ''}: {choice}"


def described(task: SweepTask, places: Mapping[str, ChoicePlace]) -> str:
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
    ways: Annotated[str, typer.Option(help=f"Of {', '.join((*WAYS, *SECOND))}, separated by commas.")] = ",".join(WAYS),
    device: Device = "cuda",
    model: Model = "embedded",
    epochs: Epochs = 8,
    every: Every = 2,
    rates: Rates = "1e-4,3e-4",
    seed: int = 0,
    limit: Limit = 0,
) -> None:
    """Learn one way after the other, and write what is gained on the tasks that are set aside. What is there already is left out."""
    train, *others = parts(folder, fold, limit)
    chooser = Chooser.open(model, device)
    score = partial(gained, chooser)
    for rate, which, way in product(map(float, rates.split(",")), (0, 1), ways.split(",")):
        second = SECOND.get(way)
        kind, gentler = (second, rate / GENTLER) if second else (way, rate)
        soft = SOFT[kind][which]
        schedule = Schedule(way, f"{rate:g}-{soft:g}", fold, seed, gentler, epochs, every)
        path = scores_file(folder, way, fold, seed, schedule.setting)
        first = partial(imitate, chooser, train, rate, epochs, SOFT[IMITATION][which], seed) if second else lambda: None
        for chance, steps in epochs_of(chooser, path, schedule, steps_of(train), others, score, before=first):
            for batch in batches(train, chance):
                steps.take(loss_of(chooser, batch, kind, soft, chance))


@app.command()
def report(folder: Folder) -> None:
    """Print what is gained on the tasks that were set aside."""
    print_report(folder, folder)


if __name__ == "__main__":
    app()
