"""Random blocks of a side's inputs, made useless once its call says that it has returned, and put back when the turn is over.

Whoever says so too early, to learn where the outputs go, computes from garbage. On a GPU a kernel of its own does the same, see
`fence`.
"""

from __future__ import annotations

import torch

from bottega.judge.arena import Arena
from bottega.judge.layout import TensorSpec
from bottega.judge.secret import places as secret_places

SPOILED_BLOCKS, SPOILED_WORDS = 64, 128
"""Blocks over all inputs (at least one for each), and words of eight bytes in a block: few enough for one thread and one launch."""
GARBAGE = -1
"""NaN in every floating type, out of range for an index."""


class Spoil:
    def __init__(self, arena: Arena, specs: list[TensorSpec], *, harmless: bool):
        filled = [spec for spec in specs if spec.extent]
        blocks = max(1, SPOILED_BLOCKS // max(1, len(filled)))
        places = torch.cat([_places(spec, blocks) for spec in filled] or [torch.zeros(0, dtype=torch.int64)])
        self.words = arena.base.view(torch.int64)
        self.address = self.words.data_ptr()
        self.places = places.to(arena.base.device)
        self.harmless = harmless or not filled
        """Only look: where a reference changes or returns its inputs, they are still needed when the call has returned."""
        self.kept = torch.empty_like(self.places)

    def strike(self) -> None:
        """Keep what is there now and overwrite it, on a CPU."""
        torch.index_select(self.words, 0, self.places, out=self.kept)
        if not self.harmless:
            self.words.index_fill_(0, self.places, GARBAGE)

    def mend(self) -> None:
        """Put back what was there when the call returned, its own changes included. Only after a strike."""
        if not self.harmless:
            self.words[self.places] = self.kept
            if self.words.is_cuda:
                torch.cuda.synchronize()


def _places(spec: TensorSpec, blocks: int) -> torch.Tensor:
    """Indices of words in the arena. A tensor begins at a whole word; behind its end there is room up to the next one."""
    count = -(-spec.extent // 8)
    starts = secret_places(count, blocks).view(blocks, 1)
    return (starts + torch.arange(SPOILED_WORDS)).remainder_(count).view(-1) + spec.offset // 8
