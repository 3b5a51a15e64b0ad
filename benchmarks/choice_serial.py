"""Do turns that see what earlier ones gained beat as many draws that do not? A turn picks one of the sweep's variants; its gain is looked up; the
next turn reads it. What is handed over is the best of all picks, or the rule's choice, which is always known.

Arms with as many picks and steps: `serial` reads what was picked and what it gained; `blind` reads what was picked alone; `parallel` reads nothing.
All learn by policy gradient, with what a pick adds to the best so far as the reward, on picks drawn from the policy itself. Likeliest: `parallel`
takes its likeliest options, all different; sampled: draws at temperature 1, which for `parallel` may be the same twice, as samples of a model are.

    PYTHONPATH=src python3 benchmarks/choice_serial.py learn policy serial --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_serial.py report serial
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Annotated

import torch
import typer
from choice_features import FEATURES, FeatureChooser
from choice_folds import parts
from choice_learning import SCALE, Chooser, Schedule, batches, epochs_of, steps_of
from choice_options import Epochs, Every, Fold, Folder, Limit, Model, Rates
from choice_scores import GREEDY, SAMPLED, print_report, scores_file
from choice_sweep import Row
from figure import Device
from torch import Tensor

SERIAL, BLIND, PARALLEL = ARMS = ("serial", "blind", "parallel")
SOFTNESS = (0.02, 0.05)
"""Weights of the policy's entropy, of which the part that validates chooses."""
DRAWS = 4
"""Of every task, to estimate what is expected of draws."""

app = typer.Typer(add_completion=False, help=__doc__)


def turn(row: Row, picked: Sequence[int], arm: str) -> Row:
    """What is asked after these picks: one of the options that are left. The rule is no pick: it is measured anyway."""
    left = [option for option in range(1, len(row["options"])) if arm == PARALLEL or option not in picked]
    tried = [(row["options"][one], row["gains"][one] if arm == SERIAL else None) for one in picked if arm != PARALLEL]
    lines = "".join(f"Tried {text}{'' if gain is None else f': {math.exp(gain):.2f}x'}\n" for text, gain in tried)
    return {
        "task": row["task"],
        "prompt": row["prompt"].removesuffix("Fastest:") + f"{lines}Fastest:",
        "options": [row["options"][option] for option in left],
        "tried": tried,
        "left": left,
        "adds": [max(0.0, row["gains"][option] - best(row, picked)) for option in left],
    }


def best(row: Row, picked: Sequence[int]) -> float:
    """Log of the gain of what would be handed over."""
    return max([0.0, *(float(row["gains"][option]) for option in picked)])


def loss(scores: Tensor, adds: Sequence[float], softness: float) -> Tensor:
    """What the next pick is expected to add, over all options at once, and the policy's entropy."""
    logprobs = torch.log_softmax(scores, 0)
    return -(logprobs.exp() * (torch.tensor(adds, device=scores.device) - softness * logprobs)).sum() / SCALE


def play(chooser: Chooser, rows: Sequence[Row], arm: str, picks: int, greedy: bool = False) -> list[list[int]]:
    """Each row's picks, one turn after the other."""
    played: list[list[int]] = [[] for _ in rows]
    for _ in range(picks):
        going = [at for at, row in enumerate(rows) if arm == PARALLEL or len(played[at]) < len(row["options"]) - 1]
        asked = [turn(rows[at], played[at], arm) for at in going]
        for at, one, scores in zip(going, asked, chooser.judged(asked)):
            if greedy and arm == PARALLEL:  # a pick that is taken is not taken again
                scores[[place for place, option in enumerate(one["left"]) if option in played[at]]] = -math.inf
            policy = torch.softmax(scores, 0)
            played[at].append(one["left"][int(policy.argmax()) if greedy else int(torch.multinomial(policy, 1))])
    return played


def scored(chooser: Chooser, arm: str, picks: int, rows: Sequence[Row]) -> list[dict[str, float]]:
    likeliest = play(chooser, rows, arm, picks, greedy=True)
    drawn = [play(chooser, rows, arm, picks) for _ in range(DRAWS)]
    return [
        {GREEDY: best(row, likeliest[at]), SAMPLED: sum(best(row, one[at]) for one in drawn) / DRAWS}
        for at, row in enumerate(rows)
    ]


@app.command()
def learn(
    policy: Folder,
    folder: Folder,
    fold: Fold = 0,
    arms: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(ARMS),
    device: Device = "cuda",
    model: Model = "embedded",
    picks: Annotated[int, typer.Option(min=2, help="Of a task: turns, or draws.")] = 3,
    epochs: Epochs = 4,
    every: Every = 2,
    rates: Rates = "2e-4",
    seed: int = 0,
    limit: Limit = 0,
) -> None:
    """Learn one arm after the other, and write what is gained on the tasks that are set aside. What is there already is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    train, *others = ([row for row in part if len(row["options"]) > picks] for part in parts(policy, fold, limit))
    chooser = FeatureChooser(device, remembers=True) if model == FEATURES else Chooser.open(model, device)
    for rate, softness, arm in product(map(float, rates.split(",")), SOFTNESS, arms.split(",")):
        schedule = Schedule(arm, f"{picks}-{rate:g}-{softness:g}", fold, seed, rate, epochs, every)
        path = scores_file(folder, arm, fold, seed, schedule.setting)
        for chance, steps in epochs_of(
            chooser, path, schedule, picks * steps_of(train), others, partial(scored, chooser, arm, picks)
        ):
            played = [[]] * len(train) if arm == PARALLEL else play(chooser, train, arm, picks - 1)
            asked = [turn(row, played[at][:before], arm) for at, row in enumerate(train) for before in range(picks)]
            for batch in batches(asked, chance):
                losses = [loss(scores, one["adds"], softness) for scores, one in zip(chooser.scores(batch), batch)]
                steps.take(torch.stack(losses).mean())


@app.command()
def report(folder: Folder) -> None:
    """Print what is gained on the tasks that were set aside."""
    print_report(folder)


if __name__ == "__main__":
    app()
