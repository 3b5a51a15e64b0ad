"""The model as the trainer sees it: packs in; loss with gradients, or log-probs, out. The parameters are the transformers module's own.

Llama-like models take our own pass. Any other model that transformers knows goes through its own forward, a document a line,
padded on the right: slower, but the same loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bottega.backbone.weights import unfit
from bottega.core.errors import BackboneError
from bottega.train.forward import Forward
from bottega.train.lm_head_loss import CHUNK, head_logprobs, head_loss, plain_logprobs
from bottega.train.loss import token_losses
from bottega.train.packing import TrainPack, bins, pack
from bottega.train.rows import TrainRow
from bottega.train.settings import LossSettings


@dataclass(frozen=True, eq=False)
class LossResult:
    loss: Tensor
    """Summed over the tokens; divide it before `backward`."""
    logprobs: Tensor
    """[N], without a gradient."""
    entropy: Tensor
    """[N]"""


class Policy:
    def __init__(
        self, model: Any, *, dtype: torch.dtype | None = None, compiled: bool | None = None, recompute: bool = False,
        longest: int | None = None, temperature: float = 1.0, device: torch.device | None = None,
    ) -> None:  # fmt: skip
        """No dtype: bf16 on a GPU, fp32 on a CPU. `recompute` trades time for memory. `longest`: a bound on the rows' length. `temperature`: at
        which answers are sampled, and so the one of their log-probs. `device`: where it will lie, if it is an outline still."""
        self.model = model
        self.device: torch.device = device or next(model.parameters()).device
        cuda = self.device.type == "cuda"
        self.dtype = dtype or (torch.bfloat16 if cuda else torch.float32)
        self.longest, self.temperature = longest, temperature
        self.why = unfit(model)
        """Why the model cannot take our own pass; empty when it can."""
        self.compiled = cuda if compiled is None else compiled
        self.body = None if self.why else Forward(model, self.dtype, self.compiled, recompute)
        self.chunk = CHUNK[self.device.type] if cuda else 1
        for parameter in self.trainable():
            if parameter.dtype != torch.float32:
                raise BackboneError(f"a {parameter.dtype} parameter cannot be trained: load the model with dtype float32")

    def trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def pack(self, rows: Sequence[TrainRow], numbers: Sequence[int] | None = None, size: int | None = None) -> TrainPack:
        """Where passes are compiled, packs are filled up to a fixed size; elsewhere they are as long as they are."""
        return pack(rows, numbers, size if self.compiled and self.device.type == "cuda" else None, self.chunk)

    def packs(self, rows: Sequence[TrainRow], size: int) -> list[TrainPack]:
        """All rows, in as few packs of `size` tokens as they fit."""
        groups = bins([len(row) for row in rows], size)
        return [self.pack([rows[number] for number in numbers], numbers, size) for numbers in groups]

    def loss(self, packed: TrainPack, settings: LossSettings) -> LossResult:
        packed = packed.to(self.device)

        def loss(logprobs: Tensor, part: slice) -> Tensor:
            return token_losses(logprobs, {name: stream[part] for name, stream in packed.streams.items()}, settings)

        if self.body is None:
            logprobs, entropy = plain_logprobs(self._foreign(packed) / self.temperature, packed.targets)
            return LossResult(loss(logprobs, slice(None)).sum(), logprobs.detach(), entropy)

        def use(hidden: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
            return head_loss(hidden, weight, packed.targets, loss, temperature=self.temperature)

        return LossResult(*self.body(packed, self.bound(packed), use))

    @torch.no_grad()
    def logprobs(self, packed: TrainPack) -> tuple[Tensor, Tensor]:
        """Log-prob and entropy of every token that counts, as in evaluation: nothing drops out."""
        packed = packed.to(self.device)
        training = self.model.training
        self.model.eval()
        try:
            if self.body is None:
                return plain_logprobs(self._foreign(packed) / self.temperature, packed.targets)

            def use(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
                return head_logprobs(hidden, weight, packed.targets, temperature=self.temperature)

            found: tuple[Tensor, Tensor] = self.body(packed, self.bound(packed), use)
            return found
        finally:
            self.model.train(training)

    def bound(self, packed: TrainPack) -> int:
        if self.longest is not None and packed.longest > self.longest:
            raise ValueError(f"a row of {packed.longest} tokens where at most {self.longest} were announced")
        return self.longest or packed.longest

    def _foreign(self, packed: TrainPack) -> Tensor:
        """The logits before each token that counts, [N, vocabulary]."""
        ids, where = self._lines(packed)
        logits: Tensor = self.model(input_ids=ids, use_cache=False).logits[where]
        return logits

    def foreign_hidden(self, packed: TrainPack) -> Tensor:
        """What the head reads before each token that counts, [N, width], where the model does not take our own pass."""
        ids, where = self._lines(packed)
        hidden: Tensor = self.model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[-1][where]
        return hidden

    def _lines(self, packed: TrainPack) -> tuple[Tensor, tuple[list[int], list[int]]]:
        """The pack's documents one a line, padded on the right, and where the tokens before those that count lie."""
        width = max(packed.lengths)
        ids = packed.ids.new_zeros((len(packed.lengths), width))
        lines: list[int] = []
        columns: list[int] = []
        at = 0
        for line, length in enumerate(packed.lengths):
            ids[line, :length] = packed.ids[at : at + length]
            lines += [line] * length
            columns += range(length)
            at += length
        places = packed.places.tolist()
        return ids, ([lines[place] for place in places], [columns[place] for place in places])


def with_logprobs(
    rows: Iterable[TrainRow], values: Iterable[np.ndarray], stream: Literal["old", "reference"]
) -> list[TrainRow]:
    """Rows whose stream is filled in for the tokens that count."""
    found = []
    for row, own in zip(rows, values, strict=True):
        filled = np.full(len(row), np.nan, np.float32)
        filled[row.learned] = own
        found.append(replace(row, old=filled) if stream == "old" else replace(row, reference=filled))
    return found
