"""One update of the model: forward and backward over the packs of a step, one optimiser step, and its metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from bottega.core.errors import TrainingError
from bottega.train.loss import denominator, means, measures
from bottega.train.optimiser import Optimiser
from bottega.train.packing import TrainPack
from bottega.train.policy import Policy
from bottega.train.settings import LossSettings


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
    divide: float | None = None,
) -> Updated:
    """`divide`: what the summed loss is divided by, where it is not what the packs themselves say (rows dropped before, say)."""
    if not packs or not any(pack.counted for pack in packs):
        raise TrainingError("an update without a single token to learn from: everything was dropped")
    begun = time.perf_counter()
    by = divide if divide is not None else denominator(packs, settings)
    total = torch.zeros((), device=policy.device)
    sums: dict[str, torch.Tensor] = {}
    policy.model.train()
    try:
        for pack in packs:
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
    loss, *added = torch.stack([total, *(value.float() for value in sums.values())]).tolist()  # the one wait for the device
    stepped = optimiser.step(loss, step, steps)
    figures = means(dict(zip(sums, added, strict=True)))
    tokens = sum(pack.tokens for pack in packs)
    seconds = time.perf_counter() - begun
    values = {"loss": loss, "gradient": stepped.norm, "rate": stepped.rate, "tokens_per_second": tokens / seconds, **figures}
    return Updated(loss, tokens, sum(pack.counted for pack in packs), seconds, stepped.skipped, values)
