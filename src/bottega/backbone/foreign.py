"""Any other architecture, through transformers' own forward pass: correct, and several times slower.

Drafts are taken in cohorts: a left-padded batch with transformers' dynamic cache runs until its last draft is over, and only
then the next one begins. A module of unknown make offers no way to put a new draft into a running batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from bottega.backbone.generation import Draft
from bottega.backbone.loading import release_unused
from bottega.backbone.runner import Drawn, Ready
from bottega.backbone.sampler import draw


class ForeignRunner:
    kind = "transformers"
    lag = 0

    def __init__(self, model: Any, slots: int, capacity: int, padding: int) -> None:
        self.model = model
        self.slots = slots
        self.capacity = capacity
        self.why = ""
        """Why the faster runners cannot serve it."""
        self._padding = padding
        self._device = next(model.parameters()).device
        self._running = False
        self._cohort: list[Draft | None] = []
        self._mask = torch.empty(0)
        self._cache: Any = None
        self._first: list[Drawn] = []

    @property
    def cache_bytes(self) -> int:
        layers = getattr(self._cache, "layers", None) or ()
        tensors = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    @property
    def buffer_bytes(self) -> int:
        return 0

    def session(self) -> AbstractContextManager[object]:
        return torch.inference_mode()

    def reserve(self, lengths: Sequence[int]) -> None:
        """The cache grows with its cohort."""

    def hand_back(self) -> None:
        """The cache went with the last draft of its cohort."""
        release_unused(self._device)

    def take(self, draft: Draft) -> bool:
        widest = max([each.length for each in self._cohort if each], default=0)
        if self._running or len(self._cohort) == self.slots:
            return False
        if self._cohort and (len(self._cohort) + 1) * max(widest, draft.length) > self.capacity:
            return False
        self._cohort.append(draft)
        return True

    def prefill(self, drafts: Sequence[Draft]) -> None:
        from transformers import DynamicCache

        width = max(len(draft.prompt) for draft in drafts)
        ids = torch.full((len(drafts), width), self._padding, device=self._device)
        self._mask = torch.zeros((len(drafts), width), dtype=torch.long, device=self._device)
        for row, draft in enumerate(drafts):
            ids[row, width - len(draft.prompt) :] = torch.tensor(draft.prompt, device=self._device)
            self._mask[row, width - len(draft.prompt) :] = 1
        self._running = True
        self._cache = DynamicCache(config=self.model.config)
        self._first = self._drawn(self._forward(ids, (self._mask.cumsum(-1) - 1).clamp(min=0)))

    def launch(self) -> Ready:
        if self._first:
            first, self._first = self._first, []
            return Ready(first, draws=0)
        self._narrow()
        ids = [draft.ids[-1] if draft else self._padding for draft in self._cohort]
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(ids), 1))], dim=-1)
        positions = self._mask.sum(-1, keepdim=True) - 1
        return Ready(self._drawn(self._forward(torch.tensor(ids, device=self._device)[:, None], positions)))

    def drop(self, draft: Draft) -> None:
        self._cohort = [None if each is draft else each for each in self._cohort]
        self._first = [drawn for drawn in self._first if drawn.draft is not draft]
        if not any(self._cohort):
            self.reset()

    def refresh(self) -> None:
        """Nothing is kept of the weights."""

    def warm_up(self) -> None:
        """There is nothing to prepare."""

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
        """Leave out drafts that are over once they are half of the batch."""
        alive = [row for row, draft in enumerate(self._cohort) if draft is not None]
        if 2 * len(alive) > len(self._cohort):
            return
        rows = torch.tensor(alive, device=self._device)
        self._cache.batch_select_indices(rows)
        self._mask = self._mask[rows]
        self._cohort = [self._cohort[row] for row in alive]

    def _drawn(self, logits: Tensor) -> list[Drawn]:
        alive = [(row, draft) for row, draft in enumerate(self._cohort) if draft is not None]
        drafts = [draft for _, draft in alive]
        ids, logprobs = draw(
            logits[[row for row, _ in alive]],
            [draft.temperature for draft in drafts],
            [draft.top_p for draft in drafts],
            [draft.seed for draft in drafts],
            [len(draft.prompt) + len(draft.ids) for draft in drafts],
        )
        return [Drawn(draft, [token], [logprob]) for draft, token, logprob in zip(drafts, ids, logprobs)]
