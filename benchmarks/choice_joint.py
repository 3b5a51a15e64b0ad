"""Does training all roles together beat training the writer alone? One model is both: the selector picks a card of those that BM25 offers, the writer
picks a choice, shown that card and which choices it advises. The selector's reward is what the writer made of its card; both learn by policy gradient
from the sweep's table (cards are drawn, the writer's gain is expected over all of its options).

Controls with as many steps over the same tasks: the writer alone without cards, with BM25's first card, and with its first whose conditions hold.
Rows are those of `choice_policy.py rows` and `choice_selector.py`, which see to it that no task is offered a card that it helped to find.

    PYTHONPATH=src python3 benchmarks/choice_joint.py learn policy selector joint --fold 0 --device cuda      # and 1, 2, 3
    PYTHONPATH=src python3 benchmarks/choice_joint.py report policy joint
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Annotated

import torch
import typer
from choice_folds import parts, rows_file
from choice_learning import (
    GRADIENT,
    SCALE,
    SOFTNESS,
    Chooser,
    Schedule,
    batches,
    epochs_of,
    gained,
    loss_of,
    objective,
    steps_of,
)
from choice_options import Epochs, Every, Fold, Folder, Limit, Model, Rates
from choice_retrieval import BM25, CHECKED
from choice_scores import print_report, scores_file
from choice_sweep import Row, rows_of
from figure import Device
from torch import Tensor

JOINT, ALONE = "joint", "alone"
ARMS = {JOINT: None, ALONE: "", f"{ALONE}, {BM25}": BM25, f"{ALONE}, {CHECKED}": CHECKED}
"""The way in which the writer's card is chosen: by the selector, none, or a control of the selector's rows."""
SHORT = {"joint": JOINT, "alone": ALONE, "bm25": f"{ALONE}, {BM25}", "checked": f"{ALONE}, {CHECKED}"}
DRAWN = 4

app = typer.Typer(add_completion=False, help=__doc__)


@dataclass
class Offered:
    """A task with its options, and the cards that are offered for it."""

    writer: Row
    selector: Row
    _shown: dict[int, Row] = field(default_factory=dict)
    _beside: dict[str, Row] = field(default_factory=dict)

    @property
    def task(self) -> str:
        return str(self.writer["task"])

    def shown(self, card: int) -> Row:
        """What the writer reads. A card whose advice this task has no place for is not shown; kept, as it is read in every epoch."""
        if not self.selector["advises"][card]:
            card = 0
        if card not in self._shown:
            self._shown[card] = with_card(self.writer, self.selector["options"][card], self.selector["advises"][card])
        return self._shown[card]

    def fixed(self, control: str) -> Row:
        """With the card of a control, which need not be among those that are offered."""
        if control not in self.selector.get("beside", {}):
            return self.shown(int(self.selector["controls"][control]) if control else 0)
        if control not in self._beside:
            one = self.selector["beside"][control]
            self._beside[control] = with_card(self.writer, one["card"], one["advises"]) if one["advises"] else self.shown(0)
        return self._beside[control]


def with_card(writer: Row, card: str, advised: Sequence[int]) -> Row:
    """The writer's row with a card above its options, and a mark at those that the card advises."""
    begin, _, end = writer["prompt"].rpartition("\n")
    options = [f"{option}, advised" if place in advised else option for place, option in enumerate(writer["options"])]
    return {"prompt": f"{begin}\nCard: {card}\n{end}", "options": options, "gains": writer["gains"]}


def paired(writers: Sequence[Row], selectors: Sequence[Row]) -> list[Offered]:
    by_task = {row["task"]: row for row in selectors}
    return [Offered(row, by_task[row["task"]]) for row in writers if row["task"] in by_task]


def drawn(scores: Tensor) -> list[int]:
    return torch.multinomial(torch.softmax(scores.detach().float(), 0), DRAWN, replacement=True).tolist()  # type: ignore[no-any-return]


def selector_loss(scores: Tensor, cards: Sequence[int], rewards: Sequence[float]) -> Tensor:
    """REINFORCE, each draw against the mean of the others, with the policy's entropy."""
    logprobs = torch.log_softmax(scores, 0)
    others = [(sum(rewards) - one) / (len(rewards) - 1) for one in rewards]
    terms = [(one - other) * logprobs[card] for card, one, other in zip(cards, rewards, others)]
    entropy = -(logprobs.exp() * logprobs).sum()
    return -(torch.stack(terms).mean() + SOFTNESS * entropy) / SCALE


def joint_loss(chooser: Chooser, tasks: Sequence[Offered]) -> Tensor:
    asked = chooser.scores([one.selector for one in tasks])
    cards = [drawn(scores) for scores in asked]
    wanted = {id(row): row for one, some in zip(tasks, cards) for row in map(one.shown, some)}
    scores = dict(zip(wanted, chooser.scores(list(wanted.values()))))
    gains = {key: torch.tensor(row["gains"], device=chooser.device) for key, row in wanted.items()}
    expected = {key: float((torch.softmax(one.detach(), 0) * gains[key]).sum()) for key, one in scores.items()}
    losses = []
    for one, own, some in zip(tasks, asked, cards):
        read = [id(one.shown(card)) for card in some]
        writing = [objective(GRADIENT, scores[key], gains[key], random.Random(0), SOFTNESS) for key in read]
        losses.append(torch.stack(writing).mean() + selector_loss(own, some, [expected[key] for key in read]))
    return torch.stack(losses).mean()


def end_to_end(chooser: Chooser, control: str | None, tasks: Sequence[Offered]) -> list[dict[str, float]]:
    """What the writer makes of the card that is chosen; by the selector, its likeliest."""
    if control is not None:
        return gained(chooser, [one.fixed(control) for one in tasks])
    cards = [int(scores.argmax()) for scores in chooser.judged([one.selector for one in tasks])]
    return gained(chooser, [one.shown(card) for one, card in zip(tasks, cards)])


@app.command()
def learn(
    policy: Folder,
    selector: Folder,
    folder: Folder,
    fold: Fold = 0,
    arms: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SHORT),
    device: Device = "cuda",
    model: Model = "embedded",
    epochs: Epochs = 8,
    every: Every = 2,
    rates: Rates = "1e-4,3e-4",
    seed: int = 0,
    limit: Limit = 0,
) -> None:
    """Learn one arm after the other, and write what is gained on the tasks that are set aside. What is there already is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = rows_of(rows_file(selector, fold))
    train, *others = (paired(part, cards) for part in parts(policy, fold, limit))
    chooser = Chooser.open(model, device)
    for rate, short in product(map(float, rates.split(",")), arms.split(",")):
        schedule = Schedule(SHORT[short], f"{rate:g}", fold, seed, rate, epochs, every)
        control, path = ARMS[schedule.way], scores_file(folder, short, fold, seed, schedule.setting)
        score = partial(end_to_end, chooser, control)
        for chance, steps in epochs_of(chooser, path, schedule, steps_of(train), others, score, attrgetter("task")):
            for batch in batches(train, chance):
                steps.take(
                    joint_loss(chooser, batch) if control is None else loss_of(chooser, [one.fixed(control) for one in batch])
                )


@app.command()
def report(policy: Folder, folder: Folder) -> None:
    """Print what is gained on the tasks that were set aside."""
    print_report(folder, policy)


if __name__ == "__main__":
    app()
