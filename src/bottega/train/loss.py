"""The one loss, token by token: imitation and clipped policy gradient side by side, weighed by the rows' streams.

For a token with log-prob l, trainer's earlier log-prob l_old, and log-prob l_rollout when it was drawn:

    imitation * -l
    + policy * w * ( -min(r A, clip(r, 1 - 0.2, 1 + 0.28) A) + kl * (exp(l_ref - l) - (l_ref - l) - 1) )

with r = exp(l - l_old) and w = min(exp(l_old - l_rollout), cap), the truncated weight for what decoder and trainer compute otherwise.
The upper clip is wider than the lower one (clip-higher), so that rare tokens may grow. Sums are divided by the number of answers times
a constant, never by an answer's own length: long wrong answers must not be punished less for each token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from bottega.train.packing import Pack
from bottega.train.settings import LossSettings


def token_losses(logprobs: Tensor, streams: Mapping[str, Tensor], settings: LossSettings) -> Tensor:
    """One for each token; its gradient flows through `logprobs` alone."""
    imitation, policy, advantage = streams["imitation"], streams["policy"], streams["advantage"]
    now = logprobs.detach()
    old = torch.where(streams["old"].isnan(), now, streams["old"])
    ratio = torch.exp((logprobs - old).clamp(max=20.0))  # e^20 is clipped anyway; e^90 would be no number
    bounded = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    steered = -torch.minimum(ratio * advantage, bounded * advantage)
    if settings.kl:
        apart = torch.where(streams["reference"].isnan(), logprobs, streams["reference"]) - logprobs
        steered = steered + settings.kl * (torch.exp(apart.clamp(max=20.0)) - apart - 1)
    steered = steered * policy * rollout_weights(old, streams["rollout"], settings)
    # Where a weight is 0 the log-prob may be anything, an infinity included: 0 times that would be no number.
    return torch.where(imitation != 0, -logprobs * imitation, 0.0) + torch.where(policy != 0, steered, 0.0)


def rollout_weights(old: Tensor, rollout: Tensor, settings: LossSettings) -> Tensor:
    if settings.truncate is None:
        return torch.ones_like(old)
    weights = torch.exp((old - rollout).clamp(max=20.0)).clamp(max=settings.truncate)
    return torch.where(rollout.isnan(), 1.0, weights)


def denominator(packs: Iterable[Pack], settings: LossSettings) -> float:
    """What the summed losses of a step are divided by: of all its packs, so that it does not matter how rows were packed."""
    if settings.normalise == "answers":
        return settings.constant * max(1, sum(pack.answers for pack in packs))
    return max(1.0, sum(float(pack.streams["imitation"].abs().sum() + pack.streams["policy"].sum()) for pack in packs))


def measures(logprobs: Tensor, entropy: Tensor, streams: Mapping[str, Tensor], settings: LossSettings) -> dict[str, Tensor]:
    """Sums over the tokens that count, to be added up over packs and divided by `count` and `drawn` at the end."""
    counts = (streams["imitation"] != 0) | (streams["policy"] != 0)
    drawn = (streams["policy"] != 0) & ~streams["rollout"].isnan()
    old = torch.where(streams["old"].isnan(), logprobs, streams["old"])
    ratio = torch.exp((logprobs - old).clamp(max=20.0))
    apart = torch.where(drawn, old - streams["rollout"], 0.0)
    clipped_high = (ratio > 1 + settings.clip_high) & (streams["advantage"] > 0)
    clipped_low = (ratio < 1 - settings.clip_low) & (streams["advantage"] < 0)
    to_reference = torch.where((streams["policy"] != 0) & ~streams["reference"].isnan(), streams["reference"] - logprobs, 0.0)
    cap = settings.truncate if settings.truncate is not None else float("inf")

    def total(values: Tensor, where: Tensor) -> Tensor:
        return torch.where(where, values.float(), 0.0).sum()

    return {
        "count": counts.sum(),
        "drawn": drawn.sum(),
        "policy": (streams["policy"] != 0).sum(),
        "nll": total(-logprobs * streams["imitation"], streams["imitation"] != 0),
        "imitation": streams["imitation"].sum(),
        "entropy": total(entropy, counts),
        "clipped": total(clipped_high | clipped_low, streams["policy"] != 0),
        "mismatch": total(apart.abs(), drawn),
        "mismatch_kl": total(torch.exp(apart.clamp(max=20.0)) - apart - 1, drawn),
        "truncated": total(torch.exp(apart.clamp(max=20.0)) > cap, drawn),
        "reference_kl": total(torch.exp(to_reference.clamp(max=20.0)) - to_reference - 1, streams["policy"] != 0),
    }


def means(sums: Mapping[str, float]) -> dict[str, float]:
    """Readable figures of what `measures` added up; only those that have something to say."""
    found = {"entropy": sums["entropy"] / max(1.0, sums["count"])}
    if sums["imitation"]:
        found["nll"] = sums["nll"] / sums["imitation"]
    if sums["policy"]:
        found["clipped_share"] = sums["clipped"] / sums["policy"]
        found["reference_kl"] = sums["reference_kl"] / sums["policy"]
    if sums["drawn"]:
        found |= {name: sums[name] / sums["drawn"] for name in ("mismatch", "mismatch_kl")}
        found["truncated_share"] = sums["truncated"] / sums["drawn"]
    return found
