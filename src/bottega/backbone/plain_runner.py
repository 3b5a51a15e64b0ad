"""The decoder in plain torch: for CPUs, and for GPUs without Triton.

Matrix products are done for all generations together, attention for a few neighbouring rows of the cache at a time, up to the
longest of them: one row at a time would drown in calls, all at once in padding. A generation whose prompt begins like that of a
running one copies that part of the cache instead of computing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.loading import release_unused
from bottega.backbone.padded_cache import PaddedCache
from bottega.backbone.runner import BatchRunner, FinishedWindow, Sampled, sampled_of
from bottega.backbone.weights import LayerTensors, Weights

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, queries [T, heads, head], keys and values [T, 2, kv_heads, head]) to [T, heads * head]."""


NEIGHBOURS = 8
"""Rows that attend in one call."""


class PlainRunner(BatchRunner):
    kind = "plain torch"

    def __init__(self, weights: Weights, slots: int, capacity: int) -> None:
        self.weights = weights
        self.slots = slots
        self.capacity = capacity
        self._cache = PaddedCache(weights, slots, capacity)
        self._stale: set[ActiveGeneration] = set()
        """Their rows hold what older weights made of the prompt."""
        self._first: list[Sampled] = []

    @property
    def cache_bytes(self) -> int:
        return self._cache.nbytes

    @property
    def buffer_bytes(self) -> int:
        return self.weights.own_bytes

    def hand_back(self) -> None:
        """The cache went with the last generation."""
        release_unused(self.weights.device)

    def take(self, generation: ActiveGeneration) -> bool:
        return self._cache.take(generation)

    def prefill(self, generations: Sequence[ActiveGeneration]) -> None:
        read = [
            each for each in self._cache.generations if each is not None and each not in generations and each not in self._stale
        ]
        for generation in generations:
            self._first.append(sampled_of([generation], self._read(generation, read))[0])
            read.append(generation)

    def launch(self) -> FinishedWindow:
        if self._first:
            first, self._first = self._first, []
            return FinishedWindow(first, draws=0)
        self._cache.close_gaps()
        generations = [generation for generation in self._cache.generations if generation is not None]
        return FinishedWindow(sampled_of(generations, self._step(generations)))

    def drop(self, generation: ActiveGeneration) -> None:
        self._cache.drop(generation)
        self._stale.discard(generation)
        self._first = [sampled for sampled in self._first if sampled.generation is not generation]

    def refresh(self) -> None:
        self.weights.refresh()
        self._stale = {generation for generation in self._cache.generations if generation is not None}

    def reset(self) -> None:
        self._cache.clear()
        self._stale.clear()
        self._first.clear()

    def _read(self, generation: ActiveGeneration, others: Sequence[ActiveGeneration]) -> Tensor:
        """The logits after a prompt, [1, vocabulary]."""
        cache, row, count = self._cache, self._cache.row(generation), len(generation.prompt)
        source, shared = _longest_prefix(generation.prompt, others)
        if source is not None:
            cache.copy(cache.row(source), row, shared)
        device, group = self.weights.device, self.weights.shape.heads // self.weights.shape.kv_heads
        mask = None
        if shared:
            places = torch.arange(count, device=device)
            mask = places <= places[shared:, None]

        def attend(number: int, queries: Tensor, both: Tensor) -> Tensor:
            cache[number][row, :, :, shared:count] = both.permute(1, 2, 0, 3)
            keys, values = cache[number][row, :, :, :count].repeat_interleave(group, dim=1)[:, None]
            mixed = F.scaled_dot_product_attention(
                queries.transpose(0, 1)[None], keys, values, mask, is_causal=mask is None, scale=self.weights.shape.scale
            )
            return mixed[0].transpose(0, 1).flatten(1)

        hidden = self._forward(torch.tensor(generation.prompt[shared:], device=device), slice(shared, count), attend)
        return self._logits(hidden[-1:])

    def _step(self, generations: Sequence[ActiveGeneration]) -> Tensor:
        """The logits after each generation's last token, [generations, vocabulary]. Generation i has row i."""
        cache, shape, device = self._cache, self.weights.shape, self.weights.device
        lengths = [len(generation.prompt) + len(generation.ids) for generation in generations]
        rows, places = torch.arange(len(generations), device=device), torch.tensor(lengths, device=device) - 1
        grouped = (-1, shape.kv_heads, shape.heads // shape.kv_heads, shape.head)
        parts = []
        for begin in range(0, len(generations), NEIGHBOURS):
            part, longest = slice(begin, begin + NEIGHBOURS), max(lengths[begin : begin + NEIGHBOURS])
            seen = torch.arange(longest, device=device) <= places[part, None]
            mask = torch.zeros(seen.shape, dtype=self.weights.dtype, device=device).masked_fill(~seen, -torch.inf)
            parts.append((part, longest, None if len(mask) == 1 else mask[:, None, None]))

        def attend(number: int, queries: Tensor, both: Tensor) -> Tensor:
            layer = cache[number]
            layer[rows, :, :, places] = both
            mixed = torch.empty_like(queries).view(grouped)
            asking = queries.view(grouped)
            for part, longest, mask in parts:
                keys, values = layer[: len(generations)][part, :, :, :longest].unbind(1)
                mixed[part] = F.scaled_dot_product_attention(asking[part], keys, values, mask, scale=shape.scale)
            return mixed.flatten(1)

        ids = torch.tensor([generation.ids[-1] for generation in generations], device=device)
        return self._logits(self._forward(ids, places, attend))

    def _forward(self, ids: Tensor, places: Tensor | slice, attend: Attend) -> Tensor:
        weights, shape = self.weights, self.weights.shape
        cosine, sine = weights.cosine[places][:, None], weights.sine[places][:, None]
        hidden = F.embedding(ids, weights.embedding)
        for number, layer in enumerate(weights.layers):
            normed = F.rms_norm(hidden, (shape.hidden,), layer.before, shape.epsilon)
            qkv = F.linear(normed, layer.qkv, layer.qkv_bias).view(len(ids), -1, shape.head)
            queries, keys, values = qkv.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
            queries, keys = self._head_norms(layer, queries, keys)
            both = torch.stack([rotated(keys, cosine, sine), values], dim=1)
            mixed = attend(number, rotated(queries, cosine, sine), both)
            hidden = hidden + F.linear(mixed, layer.out, layer.out_bias)
            normed = F.rms_norm(hidden, (shape.hidden,), layer.between, shape.epsilon)
            gate, up = F.linear(normed, layer.gate_up, layer.gate_up_bias).split(shape.inner, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down, layer.down_bias)
        return hidden

    def _head_norms(self, layer: LayerTensors, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        if layer.query_norm is None or layer.key_norm is None:
            return queries, keys
        width, epsilon = (self.weights.shape.head,), self.weights.shape.epsilon
        return F.rms_norm(queries, width, layer.query_norm, epsilon), F.rms_norm(keys, width, layer.key_norm, epsilon)

    def _logits(self, hidden: Tensor) -> Tensor:
        normed = F.rms_norm(hidden, (self.weights.shape.hidden,), self.weights.norm, self.weights.shape.epsilon)
        return F.linear(normed, self.weights.head)


def rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(heads.dtype)


def _longest_prefix(prompt: tuple[int, ...], others: Sequence[ActiveGeneration]) -> tuple[ActiveGeneration | None, int]:
    """Whose prompt begins most alike, and for how long. The last token is never shared: its logits are wanted."""
    best, length = None, 0
    for other in others:
        bound = min(len(prompt) - 1, len(other.prompt))
        if bound <= length or prompt[: length + 1] != other.prompt[: length + 1]:
            continue
        same = next((i for i in range(length, bound) if prompt[i] != other.prompt[i]), bound)
        if same > length:
            best, length = other, same
    return best, length
