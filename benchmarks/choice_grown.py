"""Does a library that grows beat one that is frozen? It begins empty. In every round the writer draws choices for the tasks to learn from, and what
it drew is looked up in the sweep's table; statements about all that was tried so far are made into cards by a rule (no model summarises), and those
that the other half of the tasks bears out are admitted (`choice_growth.py`); then the writer learns, by policy gradient over what was tried, with the
surest card that holds for a task in its prompt.

Arms with as many draws, rounds and steps: `grown`; `frozen` keeps the library of the first round; `empty` has none. No task to learn from is shown a
card that its own half proposed. Beside each arm: what its cards gain if they are followed, whatever the writer says; and the writer of `grown` with
the other libraries in place of its own.

    PYTHONPATH=src python3 benchmarks/choice_grown.py learn policy grown --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_grown.py report policy grown
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
import typer
from choice_card_rows import HERE
from choice_cards import ChoiceCard
from choice_folds import parts
from choice_growth import Proposal, Tried, admitted, half_of
from choice_learning import GRADIENT, SOFTNESS, Chooser, Steps, batches, begun, gained, objective, steps_of
from choice_options import Fold, Folder, Limit, Model
from choice_scores import GREEDY, SAMPLED, SET_ASIDE, print_report, score_rows, scores_file, told, write_scores
from choice_selector import NO_CARD
from choice_sweep import Row
from figure import Device, write_rows
from torch import Tensor

from bottega.compiler.choice_places import ChoicePlace

GROWN, FROZEN, EMPTY = ARMS = ("grown", "frozen", "empty")

app = typer.Typer(add_completion=False, help=__doc__)


def tried_of(rows: Sequence[Row], known: Mapping[str, set[int]]) -> list[Tried]:
    """What was drawn so far, with what it gained."""
    found = []
    for row in rows:
        for option in sorted(known[row["task"]] - {0}):
            place = row["places"][option]
            if place["sizes"]:
                found.append(Tried(row["task"], place_of(place), row["dtype"], place["choice"], row["gains"][option]))
    return found


def with_card(writer: Row, card: str, advised: Sequence[int]) -> Row:
    """The writer's row with a card above its options, and a mark at those that the card advises."""
    begin, _, end = writer["prompt"].rpartition("\n")
    options = [f"{option}, advised" if place in advised else option for place, option in enumerate(writer["options"])]
    return {"prompt": f"{begin}\nCard: {card}\n{end}", "options": options, "gains": writer["gains"]}


def advised(row: Row, card: ChoiceCard) -> list[int]:
    """Options that follow a card where it holds."""
    return [
        option
        for option, place in enumerate(row["places"])
        if place and place["choice"] == card.choice and card.holds(place_of(place), row["dtype"], HERE)
    ]


def place_of(row: Row) -> ChoicePlace:
    return ChoicePlace(row["change"], row["function"], row["sizes"])


def shown(row: Row, library: Sequence[Proposal], learning: bool) -> Row:
    """The writer's row with the surest card that holds, of the other half's while it learns; with what following it gains. The writer believes a card
    at first: what it advises has the score that its lower bound would have earned."""
    for one in library:
        if not (learning and one.proposed_by == half_of(row["task"])) and (options := advised(row, one.card)):
            followed = sum(row["gains"][option] for option in options) / len(options)
            believed = dict.fromkeys(options, (one.low or 0.0) / SOFTNESS)
            return {**with_card(row, one.text, options), "followed": followed, "bias": believed}
    return {**with_card(row, NO_CARD, ()), "followed": 0.0}


def draw(scores: Tensor, samples: int) -> set[int]:
    policy = torch.softmax(scores, 0)
    return set(torch.multinomial(policy, min(samples, len(policy)), replacement=False).tolist())


@app.command()
def learn(
    policy: Folder,
    folder: Folder,
    fold: Fold = 0,
    arms: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(ARMS),
    device: Device = "cuda",
    model: Model = "embedded",
    rounds: Annotated[int, typer.Option(min=2)] = 4,
    samples: Annotated[int, typer.Option(min=1, help="Choices that are drawn for a task in a round.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Of a round.")] = 2,
    rate: float = 1e-4,
    seed: int = 0,
    limit: Limit = 0,
) -> None:
    """Learn one arm after the other; write its admitted cards, and what is gained on the tasks that are set aside."""
    folder.mkdir(parents=True, exist_ok=True)
    first, second, held = parts(policy, fold, limit)
    train = [*first, *second]
    chooser = Chooser.open(model, device)
    for arm in arms.split(","):
        path = scores_file(folder, arm, fold, seed, f"{rate:g}")
        if not begun(chooser, path, seed):
            continue
        steps, chance, since = Steps(chooser, rate, rounds * epochs * steps_of(train)), random.Random(seed), time.monotonic()
        known: dict[str, set[int]] = {row["task"]: {0} for row in train}
        library: list[Proposal] = []
        first_library = library
        for number in range(rounds):
            asked = {row["task"]: shown(row, library, learning=True) for row in train}
            for task, scores in zip(asked, chooser.judged(list(asked.values()))):
                known[task] |= draw(scores, samples)
            if arm == GROWN or (arm == FROZEN and number == 0):
                library = admitted(tried_of(train, known), HERE)
                asked = {row["task"]: shown(row, library, learning=True) for row in train}
            first_library = library if number == 0 else first_library
            for _ in range(epochs):
                for batch in batches(train, chance):
                    steps.take(
                        _loss(chooser, [asked[row["task"]] for row in batch], [sorted(known[row["task"]]) for row in batch])
                    )
            print(
                f"[{time.monotonic() - since:.0f} s] fold {fold}, {arm}, round {number + 1}: {len(library)} cards", flush=True
            )
        tried = sum(map(len, known.values()))
        made = scored(chooser, held, library, arm, fold, seed)
        print(f"fold {fold}, {arm}, {steps.done} steps, {tried} options tried: {told(made)}", flush=True)
        if arm == GROWN:
            for name, other in ((FROZEN, first_library), (EMPTY, [])):
                made += scored(chooser, held, other, f"{GROWN}, then the {name} library", fold, seed)
        followed = [{measure: shown(row, library, learning=False)["followed"] for measure in (GREEDY, SAMPLED)} for row in held]
        made += score_rows(f"{arm}, cards followed", fold, seed, "", SET_ASIDE, [row["task"] for row in held], followed)
        write_rows(folder / f"cards-{arm}-{fold}-{seed}.jsonl", map(card_row, library))
        write_scores(path, made)


def scored(chooser: Chooser, held: Sequence[Row], library: Sequence[Proposal], way: str, fold: int, seed: int) -> list[Row]:
    found = gained(chooser, [shown(row, library, learning=False) for row in held])
    return score_rows(way, fold, seed, "", SET_ASIDE, [row["task"] for row in held], found)


def _loss(chooser: Chooser, rows: Sequence[Row], known: Sequence[Sequence[int]]) -> Tensor:
    """Of what was tried alone."""
    losses = []
    for scores, row, some in zip(chooser.scores(rows), rows, known):
        gains = torch.tensor([row["gains"][option] for option in some], device=chooser.device)
        losses.append(objective(GRADIENT, scores[torch.tensor(some, device=chooser.device)], gains, random.Random(0), SOFTNESS))
    return torch.stack(losses).mean()


def card_row(one: Proposal) -> Row:
    """A card with its evidence."""
    gains = [round(math.exp(gain), 4) for gain in one.gains]
    return {
        "card": one.text,
        "name": one.card.name,
        "claimed": round(math.exp(one.claimed), 4),
        "surely": round(math.exp(one.low or 0.0), 4),
        "siblings": gains,
    }


@app.command()
def report(policy: Folder, folder: Folder) -> None:
    """Print how many cards were admitted, and what is gained on the tasks that were set aside."""
    for arm in ARMS:
        counts = [len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(folder.glob(f"cards-{arm}-*.jsonl"))]
        print(f"{arm}: cards admitted in each fold {json.dumps(counts)}")
    print_report(folder, policy)


if __name__ == "__main__":
    app()
