"""The state of a decoding batch on the device: last tokens, positions, sampling parameters, and the ring buffer of results.

Every step reads and moves this state on the device itself; the host only writes rows as generations come, go or move up. After the
last row lies one that is always asleep: what fills up a graph's fixed sizes belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.pages import PAGE, HeldPages

TOKENS, POSITIONS, ACTIVE, LEFT = range(4)


class DecodeBatch:
    def __init__(self, slots: int, context: int, entries: int, ends: Sequence[int], device: torch.device) -> None:
        self.asleep = slots
        self.device = device
        slots = -(-(slots + 1) // 16) * 16  # aligned rows, whatever the number: the kernels are compiled for that once
        self.whole = torch.zeros((4, slots), dtype=torch.int32, device=device)
        """For each row the last token, its position, whether the row draws, and how many draws are left."""
        self.temperatures = torch.ones(slots, dtype=torch.float32, device=device)
        self.seeds = torch.zeros(slots, dtype=torch.int64, device=device)
        self.table = torch.zeros((slots, -(-context // PAGE)), dtype=torch.int32, device=device)
        """Each row's pages, in order."""
        self.ends = torch.tensor([*ends] or [-1], dtype=torch.int32, device=device)
        self.ring_tokens = torch.full((entries, slots), -1, dtype=torch.int32, device=device)
        self.ring_logprobs = torch.zeros((entries, slots), dtype=torch.float32, device=device)
        """What was sampled since the host last looked, an entry for each step; -1 where a row drew nothing."""
        self.cursor = torch.zeros(1, dtype=torch.int32, device=device)

    def drawing(self, rows: int | None) -> dict[str, Tensor]:
        """What `draw_tokens` wants: of the first rows, or of all where rows are named one by one."""
        first = slice(None, rows)
        return {
            "tokens": self.whole[TOKENS, first],
            "positions": self.whole[POSITIONS, first],
            "active": self.whole[ACTIVE, first],
            "left": self.whole[LEFT, first],
            "seeds": self.seeds[first],
            "temperatures": self.temperatures[first],
            "ends": self.ends,
            "ring_tokens": self.ring_tokens,
            "ring_logprobs": self.ring_logprobs,
            "cursor": self.cursor,
        }

    def put(self, rows: Sequence[int], generations: Sequence[ActiveGeneration], held: Sequence[HeldPages]) -> None:
        """New generations, as they are before their first draw."""
        at = self.upload(np.array(rows))
        whole = [(generation.prompt[-1], len(generation.prompt) - 1, 1, generation.limit) for generation in generations]
        temperatures = np.array([generation.temperature for generation in generations], dtype=np.float32)
        table = np.zeros((len(rows), self.table.shape[1]), dtype=np.int32)
        for line, each in enumerate(held):
            table[line, : len(each.pages)] = each.pages
        self.whole.index_copy_(1, at, self.upload(np.array(whole, dtype=np.int32).T))
        self.temperatures.index_copy_(0, at, self.upload(temperatures))
        self.seeds.index_copy_(0, at, self.upload(np.array([generation.seed for generation in generations], dtype=np.int64)))
        self.table.index_copy_(0, at, self.upload(table))

    def stop(self, rows: Sequence[int]) -> None:
        self.whole[ACTIVE].index_fill_(0, self.upload(np.array(rows)), 0)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        source, target = self.upload(np.array(sources)), self.upload(np.array(targets))
        for state, dimension in ((self.whole, 1), (self.temperatures, 0), (self.seeds, 0), (self.table, 0)):
            state.index_copy_(dimension, target, state.index_select(dimension, source))
        self.whole[ACTIVE].index_fill_(0, source, 0)

    def upload(self, values: np.ndarray[Any, Any]) -> Tensor:
        """To the device without waiting for it. Pinned memory is not handed out again before the copy is done."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor.to(self.device)
