"""The cache of the plain runner: a rectangle of rows for each layer, as wide as the longest draft in it may become.

Rows lie without gaps, so that attention over all of them is a few calls on views, and nothing is gathered or joined.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from bottega.backbone.generation import Draft
from bottega.backbone.weights import Weights

_GRAIN = 128
"""Widths are multiples of it, so that the rectangle is seldom made anew."""


class Rectangle:
    def __init__(self, weights: Weights, slots: int, capacity: int) -> None:
        self._weights = weights
        self._slots = slots
        self._capacity = capacity
        self.drafts: list[Draft | None] = []
        """Who has which row."""
        self._layers: list[Tensor] = []
        """[rows, keys and values, kv_heads, width, head]."""

    @property
    def nbytes(self) -> int:
        return sum(layer.numel() * layer.element_size() for layer in self._layers)

    def __getitem__(self, number: int) -> Tensor:
        return self._layers[number]

    def row(self, draft: Draft) -> int:
        return self.drafts.index(draft)

    def take(self, draft: Draft) -> bool:
        held = [each for each in self.drafts if each is not None]
        width = -(-max([draft.length, *(each.length for each in held)]) // _GRAIN) * _GRAIN
        if len(held) == self._slots or (held and (len(held) + 1) * width > self._capacity):
            return False
        if not self._layers or width > self._layers[0].shape[3]:
            self._widen(width)
        if None in self.drafts:
            self.drafts[self.drafts.index(None)] = draft
        else:
            self.drafts.append(draft)
        if len(self.drafts) > self._layers[0].shape[0]:
            self._lengthen()
        return True

    def drop(self, draft: Draft) -> None:
        self.drafts[self.row(draft)] = None
        if not any(self.drafts):
            self.clear()

    def clear(self) -> None:
        self.drafts, self._layers = [], []

    def close_gaps(self) -> None:
        """Bring the last rows forward."""
        while None in self.drafts:
            last = self.drafts.pop()
            if last is None:
                continue
            gap = self.drafts.index(None)
            used = len(last.prompt) + len(last.ids)
            for layer in self._layers:
                layer[gap, :, :, :used] = layer[len(self.drafts), :, :, :used]
            self.drafts[gap] = last

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
