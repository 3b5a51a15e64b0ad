"""Poisoned inputs: random blocks are overwritten once a call claims to have returned, and restored when its outputs were delivered.

A worker that claims it too early, to learn where the outputs go, computes from NaN. On a GPU a kernel does the same (`barrier`).
"""

from __future__ import annotations

import torch

from bottega.judge.arena import Arena
from bottega.judge.secret import secret_indices
from bottega.judge.tensor_transport import TensorSpec

POISONED_BLOCKS, BLOCK_WORDS = 64, 128
"""Blocks over all inputs (at least one for each), and words of eight bytes in a block: few enough for one thread and one launch."""
POISON_WORD = -1
"""NaN in every floating type, out of range for an index."""


class Poison:
    def __init__(self, arena: Arena, specs: list[TensorSpec], *, read_only: bool):
        filled = [spec for spec in specs if spec.extent]
        blocks = max(1, POISONED_BLOCKS // max(1, len(filled)))
        places = torch.cat([_block_words(spec, blocks) for spec in filled] or [torch.zeros(0, dtype=torch.int64)])
        self.words = arena.base.view(torch.int64)
        self.address = self.words.data_ptr()
        self.places = places.to(arena.base.device)
        self.read_only = read_only or not filled
        """Save and overwrite nothing: where a reference changes or returns its inputs, they are still needed after the call."""
        self.saved = torch.empty_like(self.places)

    def apply(self) -> None:
        """Save the words and overwrite them, on a CPU."""
        torch.index_select(self.words, 0, self.places, out=self.saved)
        if not self.read_only:
            self.words.index_fill_(0, self.places, POISON_WORD)

    def restore(self) -> None:
        """Put back what was there when the call returned, its own changes included. Only after `apply`."""
        if not self.read_only:
            self.words[self.places] = self.saved
            if self.words.is_cuda:
                torch.cuda.synchronize()


def _block_words(spec: TensorSpec, blocks: int) -> torch.Tensor:
    """Indices of words in the arena. A tensor begins at a whole word; behind its end there is room up to the next one."""
    count = -(-spec.extent // 8)
    starts = secret_indices(count, blocks).view(blocks, 1)
    return (starts + torch.arange(BLOCK_WORDS)).remainder_(count).view(-1) + spec.offset // 8
