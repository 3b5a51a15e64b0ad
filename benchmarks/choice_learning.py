"""What learning to choose shares: a model that scores options, the objectives, the optimiser's steps, and a way's epochs.

The policy is a softmax over a task's options. Each option's score is read by a linear head from the hidden state at the option's end, behind the
prompt. The head begins at zero, so that every option is as likely at first and all of them are explored. What an option is worth is in the sweep's
table: nothing is timed.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import torch
from choice_scores import GREEDY, SAMPLED, SET_ASIDE, VALIDATED, score_rows, told, write_scores
from choice_sweep import SURE, Row
from torch import Tensor

from bottega.backbone.loading import load

IMITATION, GRADIENT, SHUFFLED = WAYS = ("imitation", "gradient", "shuffled")
REFINED, LONGER = "refined", "longer"
SECOND = {REFINED: GRADIENT, LONGER: IMITATION}
"""Ways that begin with a model that has learned by imitation, and how they go on: RL from the distilled model, and as much imitation again."""
GENTLER = 3.0
"""What the rate is divided by then."""
WORST = -0.7
"""Log of the gain of an option that is much slower, or wrong: how much slower it is teaches nothing."""
SCALE = 0.1
"""What a log-gain is divided by: the spread of the options of a usual task."""
SOFT = {IMITATION: (0.0, 0.1), GRADIENT: (0.02, 0.05), SHUFFLED: (0.02, 0.05)}
"""How soft the policy is asked to be, of which the part that validates chooses: the label smoothing of an imitation; else the weight of the policy's
entropy beside the log-gain, since what two medians differ by is not worth being sure of."""
SOFTNESS = 0.03
"""Where none is chosen."""
BATCH, AT_ONCE, LONGEST = 16, 32, 768

Asked = TypeVar("Asked")
# objectives


def objective(way: str, scores: Tensor, gains: Tensor, chance: random.Random, soft: float = 0.0) -> Tensor:
    """The loss of one task. Imitation of the winner, which is the rule (the first option) where nothing beats it surely; or the gain that is expected
    of the policy, with its entropy, over all options at once: what samples would estimate."""
    if way == SHUFFLED:
        gains = gains[torch.tensor(chance.sample(range(len(gains)), len(gains)), device=gains.device)]
    logprobs = torch.log_softmax(scores, 0)
    if way == IMITATION:
        best = int(gains.argmax()) if float(gains.max()) >= math.log(SURE) else 0
        return -(1 - soft) * logprobs[best] - soft * logprobs.mean()
    return -(logprobs.exp() * (gains - soft * logprobs)).sum() / SCALE


def loss_of(
    chooser: Chooser, rows: Sequence[Row], way: str = GRADIENT, soft: float = SOFTNESS, chance: random.Random | None = None
) -> Tensor:
    """The mean over a batch."""
    chance = chance or random.Random(0)
    gains = [torch.tensor(row["gains"], device=chooser.device) for row in rows]
    return torch.stack([objective(way, *of, chance, soft) for of in zip(chooser.scores(rows), gains)]).mean()


def worth(scores: Tensor, gains: Sequence[float]) -> dict[str, float]:
    """Log of what is gained by the likeliest option, and expected of one that is sampled."""
    known = torch.tensor(gains)
    policy = torch.softmax(scores.float().cpu(), 0)
    return {GREEDY: float(known[int(policy.argmax())]), SAMPLED: float((policy * known).sum())}


def gained(chooser: Chooser, rows: Sequence[Row]) -> list[dict[str, float]]:
    return [worth(scores, row["gains"]) for scores, row in zip(chooser.judged(rows), rows)]


# the model


@dataclass(frozen=True)
class Tokens:
    """Of a prompt and its options."""

    ids: list[int]
    places: list[int]
    segments: list[int]
    """0 for the prompt, then the option's number."""
    ends: list[int]
    """The last token of each option."""


class Chooser:
    """A language model's layers with a head that scores options."""

    def __init__(self, model: Any, tokenizer: Any, device: str) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, device
        self.head = torch.nn.Linear(model.config.hidden_size, 1, bias=False, device=device)
        torch.nn.init.zeros_(self.head.weight)
        self.model.train()
        self._first = {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}

    @classmethod
    def open(cls, name: str, device: str) -> Chooser:
        if name == "features":
            from choice_features import FeatureChooser

            return FeatureChooser(device)
        loaded = load(name, device=device, dtype="float32")
        return cls(loaded.model.model, loaded.tokenizer.inner, device)

    def reset(self) -> None:
        """As it was at first."""
        self.model.load_state_dict(self._first)
        torch.nn.init.zeros_(self.head.weight)

    def parameters(self) -> list[Tensor]:
        return [*self.model.parameters(), *self.head.parameters()]

    def scores(self, rows: Sequence[Row]) -> list[Tensor]:
        """Of each row's options; a row's `bias`, by option, is what is believed of them beforehand."""
        found = self._scores(rows)
        for at, row in enumerate(rows):
            if "bias" in row:
                some = list(row["bias"])
                found[at] = found[at].index_add(
                    0,
                    torch.tensor(some, device=self.device),
                    torch.tensor([row["bias"][each] for each in some], device=self.device),
                )
        return found

    def _scores(self, rows: Sequence[Row]) -> list[Tensor]:
        """The options stand one behind the other after the prompt, and each sees the prompt and itself alone, so that a batch is one pass."""
        some = [self._tokens(row) for row in rows]
        longest = -(-max(len(one.ids) for one in some) // 8) * 8  # as the kernels for masks want it
        ids, places, segments = (
            torch.tensor([[*values, *[empty] * (longest - len(values))] for values in found], device=self.device)
            for found, empty in (
                ([one.ids for one in some], 0),
                ([one.places for one in some], 0),
                ([one.segments for one in some], -1),
            )
        )
        before = torch.ones(longest, longest, dtype=torch.bool, device=self.device).tril()
        seen = before & ((segments[:, None] == 0) | (segments[:, None] == segments[:, :, None]))
        with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=self.device.startswith("cuda")):
            states = self.model(
                input_ids=ids, attention_mask=seen[:, None], position_ids=places, use_cache=False
            ).last_hidden_state
        last = torch.tensor([line * longest + end for line, one in enumerate(some) for end in one.ends], device=self.device)
        found = self.head(states.flatten(0, 1)[last].float())[:, 0]
        return list(found.split([len(one.ends) for one in some]))

    def _tokens(self, row: Row) -> Tokens:
        """Read once, since a row comes in every epoch."""
        if "tokens" not in row:
            prompt = self.tokenizer(row["prompt"])["input_ids"][-LONGEST:]
            found = Tokens(list(prompt), [*range(len(prompt))], [0] * len(prompt), [])
            for number, option in enumerate(row["options"], 1):
                answer = self.tokenizer(f" {option}\n")["input_ids"]
                found.ids.extend(answer)
                found.places.extend(range(len(prompt), len(prompt) + len(answer)))
                found.segments.extend([number] * len(answer))
                found.ends.append(len(found.ids) - 1)
            row["tokens"] = found
        return row["tokens"]  # type: ignore[no-any-return]

    @torch.no_grad()
    def judged(self, rows: Sequence[Row]) -> list[Tensor]:
        """Scores without gradients, on the host."""
        self.model.eval()
        ordered = sorted(range(len(rows)), key=lambda place: len(rows[place]["prompt"]))
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for at in range(0, len(rows), AT_ONCE):
            some = ordered[at : at + AT_ONCE]
            for place, each in zip(some, self.scores([rows[place] for place in some])):
                found[place] = each.cpu()
        self.model.train()
        return found


def imitate(chooser: Chooser, rows: Sequence[Row], rate: float, epochs: int, soft: float, seed: int) -> None:
    """All epochs of imitation at once."""
    chance, steps = random.Random(seed), Steps(chooser, rate, epochs * steps_of(rows))
    for _ in range(epochs):
        for batch in batches(rows, chance):
            steps.take(loss_of(chooser, batch, IMITATION, soft, chance))


class Steps:
    """AdamW with ten steps of warm-up and a rate that falls to zero."""

    def __init__(self, chooser: Chooser, rate: float, steps: int) -> None:
        self.parameters, self.done = chooser.parameters(), 0
        self.optimiser = torch.optim.AdamW(self.parameters, lr=rate, weight_decay=0.01, betas=(0.9, 0.95), fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda step: min(1.0, (step + 1) / 10) * max(0.0, 1 - step / (steps + 1))
        )

    def take(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.schedule.step()
        self.done += 1


@dataclass(frozen=True)
class Schedule:
    """A way with one setting, on one fold."""

    way: str
    setting: str
    fold: int
    seed: int
    rate: float
    epochs: int
    every: int


def begun(chooser: Chooser, path: Path, seed: int) -> bool:
    """The model as it was at first; not where its scores are there already."""
    if path.exists():
        return False
    torch.manual_seed(seed)
    chooser.reset()
    return True


def epochs_of(
    chooser: Chooser, path: Path, schedule: Schedule, steps: int, parts: Sequence[Sequence[Asked]],
    score: Callable[[Sequence[Asked]], list[dict[str, float]]], task: Callable[[Any], str] = itemgetter("task"),
    before: Callable[[], None] = lambda: None,
) -> Iterator[tuple[random.Random, Steps]]:  # fmt: skip
    """One epoch after the other, for the caller to learn in; then the part that validates and the one set aside are scored. What is there already is
    left out. `steps`: of an epoch; `before`: what is learned first."""
    if not begun(chooser, path, schedule.seed):
        return
    before()
    taken = Steps(chooser, schedule.rate, schedule.epochs * steps)
    chance, since, made = random.Random(schedule.seed), time.monotonic(), []
    for epoch in range(1, schedule.epochs + 1):
        yield chance, taken
        if epoch % schedule.every == 0 or epoch == schedule.epochs:
            setting = f"{schedule.setting}, {epoch} epochs"
            for part, some in zip((VALIDATED, SET_ASIDE), parts, strict=True):
                made += score_rows(schedule.way, schedule.fold, schedule.seed, setting, part, map(task, some), score(some))
            told_of = f"fold {schedule.fold}, {schedule.way} {schedule.setting}, {taken.done} steps"
            print(f"[{time.monotonic() - since:.0f} s] {told_of}: {told(made)}", flush=True)
    write_scores(path, made)


def steps_of(tasks: Sequence[object]) -> int:
    """Of one epoch."""
    return len(tasks) // min(BATCH, len(tasks))


def batches(tasks: Sequence[Asked], chance: random.Random) -> Iterable[list[Asked]]:
    """One epoch; a last batch that is not full is left for the next one, as its tasks are drawn anew."""
    order = chance.sample(list(tasks), len(tasks))
    size = min(BATCH, len(order))
    return (order[at : at + size] for at in range(0, len(order) - size + 1, size))
