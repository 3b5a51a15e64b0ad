"""Canary words: random words of the outputs, and of inputs that a task changes in place, read when a call ends and again later.

A word that differs the second time was written after the call had returned.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bottega.judge.secret import secret_indices

CANARY_WORDS = 512
"""Words of eight bytes in each region."""


class Canary:
    """`saved` is filled by `apply` on a CPU, and on a GPU by the barrier's kernel, which reads `places` from `address`."""

    read_only = True
    address = 0
    """`places` count words from here: from the beginning of all memory, since the regions lie in more than one arena."""

    def __init__(self, regions: Sequence[torch.Tensor]):
        filled = [each for each in (region[: region.numel() // 8 * 8].view(torch.int64) for region in regions) if each.numel()]
        chosen = [secret_indices(each.numel(), CANARY_WORDS) for each in filled]
        self._parts = [(each, places.to(each.device)) for each, places in zip(filled, chosen)]
        starts = [torch.zeros(0, dtype=torch.int64)] + [places + each.data_ptr() // 8 for each, places in zip(filled, chosen)]
        self.places = torch.cat(starts).to(regions[0].device)
        self.saved = torch.empty_like(self.places)

    def apply(self) -> None:
        self.saved = self._now()

    def changed(self) -> bool:
        return not torch.equal(self.saved, self._now())

    def _now(self) -> torch.Tensor:
        return torch.cat([each[places] for each, places in self._parts] or [self.saved[:0]])
