"""Retained outputs: what an earlier call returned must not change by itself.

A module that always returns the same buffer saves the cost of fresh outputs, and corrupts results that its callers still use. So now and then a
worker is told to keep the outputs of a call, and they are checked after later calls. On a CPU the supervisor reads them in the memory of the
stopped worker, so that they cannot be repaired in time, and preferably where the latest outputs differ from them: a reused buffer shows there.
On a GPU the worker is asked to deliver the outputs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from bottega.judge.secret import secret_indices
from bottega.judge.tensor_transport import TensorSpec

WORDS = 64
"""Of eight bytes, looked at in each output: so many of those that differ, and as many anywhere."""
LARGEST_COPY = 256 << 20
SAMPLED = 1 << 17
"""Words that are remembered of an output that is too large to be copied."""
MOST_OUTPUTS = 32


@dataclass
class RetainedOutputs:
    """The outputs of one call as they were handed over."""

    sizes: list[int]
    """Whole words of each output that is looked at."""
    chosen: list[torch.Tensor | None] = field(default_factory=list)
    """Which words are remembered; None for all."""
    words: list[torch.Tensor] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    """Where each output begins in the runner's own memory; empty where it cannot be read there."""

    @classmethod
    def of(cls, base: torch.Tensor, specs: Sequence[TensorSpec], addresses: Sequence[int]) -> RetainedOutputs:
        """Remember outputs that were just handed over, in `base`."""
        looked_at = looked_at_of(specs)
        where = [address for spec, address in zip(specs[:MOST_OUTPUTS], addresses) if spec.extent >= 8]
        kept = cls(
            [spec.extent // 8 for spec in looked_at], addresses=where if len(where) == len(looked_at) and all(where) else []
        )
        for spec in looked_at:
            size = spec.extent // 8
            small = spec.extent <= LARGEST_COPY
            kept.chosen.append(None if small else secret_indices(size, SAMPLED, base.device))
            words = _words(base, spec)
            kept.words.append(words.clone() if small else words[kept.chosen[-1]])
        return kept

    def equals(self, base: torch.Tensor, specs: Sequence[TensorSpec]) -> bool:
        """Whether outputs that were handed over again, wherever in `base`, are what they were."""
        again = looked_at_of(specs)
        if [spec.extent // 8 for spec in again] != self.sizes:
            return False
        return all(
            torch.equal(_words(base, spec) if chosen is None else _words(base, spec)[chosen], words)
            for spec, chosen, words in zip(again, self.chosen, self.words)
        )

    def places_to_read(self, base: torch.Tensor, latest: Sequence[TensorSpec]) -> list[torch.Tensor]:
        """For each output, which of its remembered words to read in the runner's own memory: `latest` are the outputs of the last call."""
        found = []
        now = looked_at_of(latest)
        for number, (words, chosen) in enumerate(zip(self.words, self.chosen)):
            anywhere = secret_indices(words.numel(), WORDS)
            if number < len(now) and now[number].extent // 8 == self.sizes[number]:
                other = _words(base, now[number]) if chosen is None else _words(base, now[number])[chosen]
                differ = (other != words).nonzero().view(-1)
                if differ.numel():
                    anywhere = torch.cat([anywhere, differ[secret_indices(differ.numel(), WORDS)].cpu()])
            found.append(anywhere)
        return found

    def regions(self, read: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
        """Address and length of each of those words."""
        return [
            (address + 8 * int(place), 8)
            for address, chosen, which in zip(self.addresses, self.chosen, read)
            for place in (which if chosen is None else chosen[which]).tolist()
        ]

    def are(self, read: Sequence[torch.Tensor], found: Sequence[bytes]) -> bool:
        """Whether these words, read in the runner's memory, are what they were."""
        known = [
            int(word).to_bytes(8, "little", signed=True)
            for words, which in zip(self.words, read)
            for word in words[which].tolist()
        ]
        return list(found) == known


def looked_at_of(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return [spec for spec in specs[:MOST_OUTPUTS] if spec.extent >= 8]


def _words(base: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return base[spec.offset : spec.offset + spec.extent // 8 * 8].view(torch.int64)
