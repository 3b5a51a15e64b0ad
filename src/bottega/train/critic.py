"""The critic of PPO: a copy of the model whose head is one number, what is still to be earned from here; and its part of a step.

A network of its own, with an optimiser of its own, as CUDA Agent has it: its error must not pull at the policy's weights. It begins by saying 0 and
may be trained before the policy is (`critic.pretraining`), because advantages by a critic that knows nothing are noise. One process only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from bottega.backbone.weights import bare
from bottega.train.advantages.gae import token_advantages
from bottega.train.optimiser import Optimiser
from bottega.train.packing import TrainPack
from bottega.train.policy import Policy
from bottega.train.rows import TrainRow
from bottega.train.settings import Config

LEAST_DEVIATION = 1e-6


class Critic:
    def __init__(self, policy: Policy, config: Config) -> None:
        """Begins with the policy's weights as they are."""
        self.config = config
        model = copy.deepcopy(policy.model)
        self.policy = Policy(
            model, dtype=policy.dtype, compiled=policy.compiled, recompute=config.model.recompute, longest=config.data.longest,
        )  # fmt: skip
        width = bare(model).get_input_embeddings().weight.shape[1]
        self.head = nn.Linear(width, 1, device=policy.device, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        settings = config.optimiser.model_copy(update={"lr": config.critic.lr})
        self.optimiser = Optimiser(self.trained().values(), settings)

    def trained(self) -> dict[str, nn.Parameter]:
        """What learns, by name; the head of words has no part in it."""
        unused = None if bare(self.policy.model).config.tie_word_embeddings else bare(self.policy.model).get_output_embeddings()
        skipped = {id(parameter) for parameter in unused.parameters()} if unused is not None else set()
        own = {
            name: value
            for name, value in self.policy.model.named_parameters()
            if value.requires_grad and id(value) not in skipped
        }
        return {**own, "head.weight": self.head.weight, "head.bias": self.head.bias}

    @torch.no_grad()
    def values(self, packed: TrainPack) -> Tensor:
        """Before each token that counts, [N]."""
        return self._values(packed.to(self.policy.device)).float()

    def update(self, packs: Sequence[TrainPack], step: int, steps: int) -> dict[str, float]:
        """One step towards the rows' targets, by the mean of squares over all tokens that have one."""
        count = sum(int(_has_target(pack).sum()) for pack in packs)
        if not count:
            return {}
        loss, spread, centre = 0.0, 0.0, sum(float(pack.streams["target"][_has_target(pack)].sum()) for pack in packs) / count
        self.policy.model.train()
        try:
            for pack in packs:
                packed = pack.to(self.policy.device)
                there = _has_target(packed)
                wrong = (self._values(packed).float() - packed.streams["target"])[there].square().sum()
                (0.5 * wrong / count).backward()
                loss += float(wrong.detach()) / count
                spread += float((packed.streams["target"][there] - centre).square().sum()) / count
        except BaseException:
            self.optimiser.forget()
            raise
        finally:
            self.policy.model.eval()
        stepped = self.optimiser.step(loss, step, steps)
        explained = 1 - loss / spread if spread > LEAST_DEVIATION else 0.0
        return {"critic/loss": loss, "critic/explained": explained, "critic/gradient": stepped.norm, "critic/target": centre}

    def _values(self, packed: TrainPack) -> Tensor:
        if self.policy.body is None:
            expected: Tensor = self.head(self.policy.foreign_hidden(packed).float())[:, 0]
            return expected

        def use(hidden: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
            return (self.head(hidden.float())[:, 0],)

        return self.policy.body(packed, self.policy.bound(packed), use)[0]  # type: ignore[no-any-return]


def _has_target(packed: TrainPack) -> Tensor:
    return (packed.streams["policy"] != 0) & ~packed.streams["target"].isnan()


def with_token_advantages(
    rows: Sequence[TrainRow], values: Sequence[np.ndarray], returns: Mapping[tuple[str, int], float], config: Config
) -> list[TrainRow]:
    """Rows of writers with an advantage and a target for each token. `values`: of each row's learned tokens; `returns`: of the turns that have
    one, by trace and turn. Other turns are left as they are."""
    found = [replace(row, advantage=row.advantage.copy(), target=row.target.copy()) for row in rows]
    expected: list[np.ndarray] = []
    places: dict[str, list[tuple[int, int, int, int]]] = {}
    for number, (row, own) in enumerate(zip(rows, values, strict=True)):
        spread = np.full(len(row), np.nan)
        spread[row.learned] = own
        expected.append(spread)
        for trace, turn, begin, end in row.spans:
            if (trace, turn) in returns:
                places.setdefault(trace, []).append((turn, number, begin, end))
    written: list[tuple[int, int, int]] = []
    for trace, turns in places.items():
        turns.sort()
        gaps = [later[0] - turn[0] for turn, later in pairwise(turns)]
        advantages, targets = token_advantages(
            [expected[number][begin:end] for _, number, begin, end in turns],
            [returns[trace, turn] for turn, *_ in turns],
            [*(config.reward.gamma**gap for gap in gaps), 0.0],
            config.critic.trust,
        )
        for (_, number, begin, end), advantage, target in zip(turns, advantages, targets):
            found[number].advantage[begin:end], found[number].target[begin:end] = advantage, target
            written.append((number, begin, end))
    if config.critic.whiten and written:
        every = np.concatenate([found[number].advantage[begin:end] for number, begin, end in written]).astype(np.float64)
        for number, begin, end in written:
            part = found[number].advantage[begin:end]
            found[number].advantage[begin:end] = (part - every.mean()) / max(every.std(), LEAST_DEVIATION)
    return found
