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

from bottega.judge.secret import secret_choice, secret_indices
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

    numbers: list[int]
    """Which outputs are looked at."""
    sizes: list[int]
    """Whole words of each of them."""
    chosen: list[torch.Tensor | None] = field(default_factory=list)
    """Which words are remembered; None for all."""
    words: list[torch.Tensor] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    """Where each output begins in the runner's own memory; empty where it cannot be read there."""

    @classmethod
    def of(
        cls, base: torch.Tensor, specs: Sequence[TensorSpec], addresses: Sequence[int], without: frozenset[int] = frozenset()
    ) -> RetainedOutputs:
        """Remember outputs that were just handed over, in `base`, but for some."""
        numbers = [number for number, spec in enumerate(specs) if spec.extent >= 8 and number not in without]
        numbers = [numbers[place] for place in secret_choice([specs[number].extent for number in numbers], MOST_OUTPUTS)]
        where = [addresses[number] for number in numbers if number < len(addresses)]
        kept = cls(
            numbers,
            [specs[number].extent // 8 for number in numbers],
            addresses=where if len(where) == len(numbers) and all(where) else [],
        )
        for spec, size in zip((specs[number] for number in numbers), kept.sizes):
            small = spec.extent <= LARGEST_COPY
            kept.chosen.append(None if small else secret_indices(size, SAMPLED, base.device))
            words = _words(base, spec)
            kept.words.append(words.clone() if small else words[kept.chosen[-1]])
        return kept

    def equals(self, base: torch.Tensor, specs: Sequence[TensorSpec]) -> bool:
        """Whether outputs that were handed over again, wherever in `base`, are what they were."""
        again = [specs[number] for number in self.numbers if number < len(specs)]
        if [spec.extent // 8 for spec in again] != self.sizes:
            return False
        return all(
            torch.equal(_words(base, spec) if chosen is None else _words(base, spec)[chosen], words)
            for spec, chosen, words in zip(again, self.chosen, self.words)
        )

    def places_to_read(self, base: torch.Tensor, latest: Sequence[TensorSpec]) -> list[torch.Tensor]:
        """For each output, which of its remembered words to read in the runner's own memory: `latest` are the outputs of the last call."""
        found = []
        for number, size, words, chosen in zip(self.numbers, self.sizes, self.words, self.chosen):
            anywhere = secret_indices(words.numel(), WORDS)
            if number < len(latest) and latest[number].extent // 8 == size:
                other = _words(base, latest[number]) if chosen is None else _words(base, latest[number])[chosen]
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


def _words(base: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return base[spec.offset : spec.offset + spec.extent // 8 * 8].view(torch.int64)
