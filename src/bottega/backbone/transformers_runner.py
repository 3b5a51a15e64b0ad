"""Any other architecture, through transformers' own forward pass: correct, and several times slower.

Generations are taken in cohorts: a left-padded batch with transformers' dynamic cache runs until its last generation is over, and only
then the next one begins. A module of unknown make offers no way to put a new generation into a running batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.loading import release_unused
from bottega.backbone.runner import BatchRunner, FinishedWindow, Sampled, sampled_of


class TransformersRunner(BatchRunner):
    kind = "transformers"

    def __init__(self, model: Any, slots: int, capacity: int, padding: int, why: str = "") -> None:
        self.model, self.slots, self.capacity, self.why = model, slots, capacity, why
        self._padding = padding
        self._device = next(model.parameters()).device
        self._running = False
        self._cohort: list[ActiveGeneration | None] = []
        self._mask = torch.empty(0)
        self._cache: Any = None
        self._first: list[Sampled] = []

    @property
    def cache_bytes(self) -> int:
        layers = getattr(self._cache, "layers", None) or ()
        tensors = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    def hand_back(self) -> None:
        """The cache went with the last generation of its cohort."""
        release_unused(self._device)

    def take(self, generation: ActiveGeneration) -> bool:
        widest = max([each.length for each in self._cohort if each], default=0)
        if self._running or len(self._cohort) == self.slots:
            return False
        if self._cohort and (len(self._cohort) + 1) * max(widest, generation.length) > self.capacity:
            return False
        self._cohort.append(generation)
        return True

    def prefill(self, generations: Sequence[ActiveGeneration]) -> None:
        from transformers import DynamicCache

        width = max(len(generation.prompt) for generation in generations)
        ids = torch.full((len(generations), width), self._padding, device=self._device)
        self._mask = torch.zeros((len(generations), width), dtype=torch.long, device=self._device)
        for row, generation in enumerate(generations):
            ids[row, width - len(generation.prompt) :] = torch.tensor(generation.prompt, device=self._device)
            self._mask[row, width - len(generation.prompt) :] = 1
        self._running = True
        self._cache = DynamicCache(config=self.model.config)
        self._first = self._sampled(self._forward(ids, (self._mask.cumsum(-1) - 1).clamp(min=0)))

    def launch(self) -> FinishedWindow:
        if self._first:
            first, self._first = self._first, []
            return FinishedWindow(first, draws=0)
        self._narrow()
        ids = [generation.ids[-1] if generation else self._padding for generation in self._cohort]
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(ids), 1))], dim=-1)
        positions = self._mask.sum(-1, keepdim=True) - 1
        return FinishedWindow(self._sampled(self._forward(torch.tensor(ids, device=self._device)[:, None], positions)))

    def drop(self, generation: ActiveGeneration) -> None:
        self._cohort = [None if each is generation else each for each in self._cohort]
        self._first = [sampled for sampled in self._first if sampled.generation is not generation]
        if not any(self._cohort):
            self.reset()

    def reset(self) -> None:
        self._running, self._cohort, self._cache, self._first = False, [], None, []

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        training = self.model.training
        self.model.eval()
        try:
            found = self.model(
                input_ids=ids, attention_mask=self._mask, position_ids=positions, past_key_values=self._cache, use_cache=True
            )
        finally:
            self.model.train(training)
        return found.logits[:, -1]  # type: ignore[no-any-return]

    def _narrow(self) -> None:
        """Leave out generations that are over once they are half of the batch."""
        alive = [row for row, generation in enumerate(self._cohort) if generation is not None]
        if 2 * len(alive) > len(self._cohort):
            return
        rows = torch.tensor(alive, device=self._device)
        self._cache.batch_select_indices(rows)
        self._mask = self._mask[rows]
        self._cohort = [self._cohort[row] for row in alive]

    def _sampled(self, logits: Tensor) -> list[Sampled]:
        alive = [(row, generation) for row, generation in enumerate(self._cohort) if generation is not None]
        return sampled_of([generation for _, generation in alive], logits[[row for row, _ in alive]])
