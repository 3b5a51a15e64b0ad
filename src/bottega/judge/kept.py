"""Outputs of an earlier call that a side still holds: what it has handed out may not change by itself.

A module that returns one buffer for ever saves what a fresh output costs, and spoils the results that its callers still use. So now
and then a side is told to keep what a call returned, and random words of it are looked at again after later calls. On a CPU the
supervisor reads them in the side's own memory while it is stopped, so that nobody can put them right in time. On a GPU the side is
asked to hand the outputs over once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from bottega.judge.layout import TensorSpec
from bottega.judge.secret import places

WORDS = 64
"""Of eight bytes, looked at in each output."""
MOST_OUTPUTS = 32


@dataclass
class Kept:
    """Words of the outputs of one call: where they lie and what they were."""

    specs: list[TensorSpec]
    chosen: list[torch.Tensor] = field(default_factory=list)
    """Offsets in bytes from the beginning of each output."""
    words: list[torch.Tensor] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    """Where each output begins in the side's own memory; empty where it cannot be read there."""

    @classmethod
    def of(cls, base: torch.Tensor, specs: Sequence[TensorSpec], addresses: Sequence[int]) -> Kept:
        """Look at outputs that were just handed over, in `base`."""
        filled = [spec for spec in specs[:MOST_OUTPUTS] if spec.extent >= 8]
        where = [address for spec, address in zip(specs[:MOST_OUTPUTS], addresses) if spec.extent >= 8]
        kept = cls(filled, [8 * places(spec.extent // 8, WORDS) for spec in filled], [], where if all(where) else [])
        kept.words = kept.read(base, filled)
        return kept

    def read(self, base: torch.Tensor, specs: Sequence[TensorSpec]) -> list[torch.Tensor]:
        """The same words of the same outputs, wherever they were handed over this time."""
        found = []
        for spec, chosen in zip(specs, self.chosen):
            words = base[spec.offset : spec.offset + spec.extent // 8 * 8].view(torch.int64)
            found.append(words[(chosen // 8).to(base.device)].cpu())
        return found

    def regions(self) -> list[tuple[int, int]]:
        """Address and length of each word in the side's own memory."""
        return [
            (address + int(offset), 8) for address, chosen in zip(self.addresses, self.chosen) for offset in chosen.tolist()
        ]

    def equals(self, words: Sequence[torch.Tensor]) -> bool:
        return len(words) == len(self.words) and all(torch.equal(one, two) for one, two in zip(self.words, words))

    def equals_bytes(self, read: Sequence[bytes]) -> bool:
        known = [int(word).to_bytes(8, "little", signed=True) for words in self.words for word in words.tolist()]
        return list(read) == known
