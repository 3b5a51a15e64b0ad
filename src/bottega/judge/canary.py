"""Random words of the outputs, and of inputs that a task changes in place: seen the moment a turn ends, and looked at again later."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bottega.judge.secret import places as secret_places

GLANCES = 512
"""Words of eight bytes in each region."""


class Glance:
    """Written late is what changed after `kept` was filled: by `strike` on a CPU, on a GPU by the fence (`address` and `places`)."""

    harmless = True
    address = 0
    """Places count words from here: from the beginning of all memory, for the regions lie in more than one arena."""

    def __init__(self, regions: Sequence[torch.Tensor]):
        filled = [each for each in (region[: region.numel() // 8 * 8].view(torch.int64) for region in regions) if each.numel()]
        chosen = [secret_places(each.numel(), GLANCES) for each in filled]
        self._parts = [(each, places.to(each.device)) for each, places in zip(filled, chosen)]
        starts = [torch.zeros(0, dtype=torch.int64)] + [places + each.data_ptr() // 8 for each, places in zip(filled, chosen)]
        self.places = torch.cat(starts).to(regions[0].device)
        self.kept = torch.empty_like(self.places)

    def strike(self) -> None:
        self.kept = self._now()

    def changed(self) -> bool:
        return not torch.equal(self.kept, self._now())

    def _now(self) -> torch.Tensor:
        return torch.cat([each[places] for each, places in self._parts] or [self.kept[:0]])
