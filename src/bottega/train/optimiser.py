"""AdamW with a learning-rate schedule and gradient clipping; a step with a gradient that is not finite is skipped.

One bad batch must not ruin a run: a step whose loss or gradient is not finite is left out and says so. Several in a row mean that the
weights themselves are bad; then the run ends, and the last good checkpoint is where to go on from.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from bottega.core.errors import TrainingError
from bottega.train.loss import denominator, means, measures
from bottega.train.packing import TrainPack
from bottega.train.policy import Policy
from bottega.train.ranks import ALONE, Ranks
from bottega.train.settings import LossSettings, OptimiserSettings
from bottega.train.sharding import full


def rate(settings: OptimiserSettings, step: int, steps: int) -> float:
    """Of a step, counted from 0, in a run of `steps`: a function of the step alone, so that a resumed run needs no memory of it."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    if settings.schedule == "constant":
        return settings.lr
    share = min(1.0, (step - settings.warmup) / max(1, steps - settings.warmup))
    return settings.lr * (settings.least + (1 - settings.least) * 0.5 * (1 + math.cos(math.pi * share)))


@dataclass(frozen=True)
class Stepped:
    rate: float
    norm: float
    """Of the gradient, before it was bounded."""
    skipped: str = ""
    """Why nothing was changed; empty when it was."""


class Optimiser:
    def __init__(self, parameters: Iterable[nn.Parameter], settings: OptimiserSettings) -> None:
        self.settings = settings
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if not self.parameters:
            raise TrainingError("the model has no parameter that can be trained: all of them are frozen")
        self.bad = 0
        """Steps in a row that were left out."""
        matrices = [parameter for parameter in self.parameters if parameter.ndim > 1]
        others = [parameter for parameter in self.parameters if parameter.ndim <= 1]
        groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self._inner = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=settings.lr, betas=settings.betas, eps=settings.epsilon,
            fused=self.parameters[0].is_cuda,
        )  # fmt: skip

    def step(self, loss: float, step: int, steps: int) -> Stepped:
        """Use the gradients that have been gathered, and forget them. Raises `TrainingError` after too many bad steps in a row."""
        now = rate(self.settings, step, steps)
        for group in self._inner.param_groups:
            group["lr"] = now
        norm = float(full(nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)))
        if math.isfinite(loss) and math.isfinite(norm):
            self._inner.step()
            self.forget()
            self.bad = 0
            return Stepped(now, norm)
        self.forget()
        self.bad += 1
        what = "loss" if not math.isfinite(loss) else "gradient"
        if self.bad >= self.settings.bad_steps:
            raise TrainingError(
                f"the {what} was no number in {self.bad} steps in a row: the weights are likely damaged. Go on from the last "
                "checkpoint with a lower optimiser.lr or optimiser.clip"
            )
        return Stepped(now, norm, f"the {what} is no number; the step was left out")

    def forget(self) -> None:
        self._inner.zero_grad(set_to_none=True)

    def moments(self, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
        """What is remembered of a parameter; nothing before the first step."""
        return dict(self._inner.state.get(parameter, {}))

    def new_moments(self, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
        """Room for what `restore` takes."""
        place = parameter.device if parameter.is_cuda else None  # as AdamW keeps it: fused on a GPU
        return {
            "step": torch.zeros((), device=place),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }

    def restore(self, parameter: nn.Parameter, moments: dict[str, torch.Tensor]) -> None:
        self._inner.state[parameter] = moments


@dataclass(frozen=True)
class Updated:
    loss: float
    tokens: int
    """Computed, padding left out."""
    learned: int
    """Of those, the ones that count."""
    seconds: float
    skipped: str = ""
    values: dict[str, float] = field(default_factory=dict)
    """Everything worth drawing as a curve."""


def update(
    policy: Policy,
    optimiser: Optimiser,
    packs: Sequence[TrainPack],
    settings: LossSettings,
    step: int,
    steps: int,
    ranks: Ranks = ALONE,
) -> Updated:
    """One step of the optimiser. Every rank is given all packs and takes its own; the sums that a loss is divided by are those of all."""
    if not packs or not any(pack.counted for pack in packs):
        raise TrainingError("an update without a single token to learn from: everything was dropped")
    begun = time.perf_counter()
    by = denominator(packs, settings)
    total = torch.zeros((), device=policy.device)
    sums: dict[str, torch.Tensor] = {}
    policy.model.train()
    try:
        for pack in ranks.share(packs):
            passed = policy.loss(pack, settings)
            (passed.loss / by).backward()
            with torch.no_grad():
                total += passed.loss.detach() / by
                streams = {name: stream.to(policy.device) for name, stream in pack.streams.items()}
                for name, value in measures(passed.logprobs, passed.entropy, streams, settings).items():
                    sums[name] = sums.get(name, 0) + value
    except BaseException:
        optimiser.forget()
        raise
    finally:
        policy.model.eval()
    told = ranks.total(torch.stack([total, *(value.float() for value in sums.values())]))
    loss, *added = told.tolist()  # the one wait for the device
    stepped = optimiser.step(loss, step, steps)
    figures = means(dict(zip(sums, added, strict=True)))
    tokens = sum(pack.tokens for pack in packs)
    seconds = time.perf_counter() - begun
    values = {"loss": loss, "gradient": stepped.norm, "rate": stepped.rate, "tokens_per_second": tokens / seconds, **figures}
    return Updated(loss, tokens, sum(pack.counted for pack in packs), seconds, stepped.skipped, values)
