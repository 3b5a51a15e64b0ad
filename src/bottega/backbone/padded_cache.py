"""The cache of the plain runner: for each layer one padded tensor of rows, as wide as the longest generation in it may become.

Rows lie without gaps, so that attention over all of them is a few calls on views, and nothing is gathered or joined.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.weights import Weights

_GRAIN = 128
"""Widths are multiples of it, so that the tensor is seldom allocated anew."""


class PaddedCache:
    def __init__(self, weights: Weights, slots: int, capacity: int) -> None:
        self._weights = weights
        self._slots = slots
        self._capacity = capacity
        self.generations: list[ActiveGeneration | None] = []
        """Who has which row."""
        self._layers: list[Tensor] = []
        """[rows, keys and values, kv_heads, width, head]."""

    @property
    def nbytes(self) -> int:
        return sum(layer.numel() * layer.element_size() for layer in self._layers)

    def __getitem__(self, number: int) -> Tensor:
        return self._layers[number]

    def row(self, generation: ActiveGeneration) -> int:
        return self.generations.index(generation)

    def take(self, generation: ActiveGeneration) -> bool:
        held = [each for each in self.generations if each is not None]
        width = -(-max([generation.length, *(each.length for each in held)]) // _GRAIN) * _GRAIN
        if len(held) == self._slots or (held and (len(held) + 1) * width > self._capacity):
            return False
        if not self._layers or width > self._layers[0].shape[3]:
            self._widen(width)
        if None in self.generations:
            self.generations[self.generations.index(None)] = generation
        else:
            self.generations.append(generation)
        if len(self.generations) > self._layers[0].shape[0]:
            self._lengthen()
        return True

    def drop(self, generation: ActiveGeneration) -> None:
        self.generations[self.row(generation)] = None
        if not any(self.generations):
            self.clear()

    def clear(self) -> None:
        self.generations, self._layers = [], []

    def close_gaps(self) -> None:
        """Bring the last rows forward."""
        while None in self.generations:
            last = self.generations.pop()
            if last is None:
                continue
            gap = self.generations.index(None)
            used = len(last.prompt) + len(last.ids)
            for layer in self._layers:
                layer[gap, :, :, :used] = layer[len(self.generations), :, :, :used]
            self.generations[gap] = last

    def copy(self, source: int, target: int, count: int) -> None:
        """The first tokens of one row to another."""
        for layer in self._layers:
            layer[target, :, :, :count] = layer[source, :, :, :count]

    def _lengthen(self) -> None:
        rows = min(self._slots, max(4, 2 * self._layers[0].shape[0]))
        self._renew(rows, self._layers[0].shape[3])

    def _widen(self, width: int) -> None:
        self._renew(self._layers[0].shape[0] if self._layers else 1, width)

    def _renew(self, rows: int, width: int) -> None:
        shape, old = self._weights.shape, self._layers
        size = (rows, 2, shape.kv_heads, width, shape.head)
        self._layers = []
        for number in range(shape.layers):
            fresh = _zeros(size, self._weights.dtype, self._weights.device)
            if old:
                fresh[: old[number].shape[0], :, :, : old[number].shape[3]] = old[number]
            self._layers.append(fresh)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros, since what lies behind a row's end is multiplied with a weight of nothing, and must be a number for that.

    On a CPU by numpy, which leaves it to the system: memory that is never written is never there, so that it costs nothing to ask
    for more than is needed now.
    """
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(size) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(size)
