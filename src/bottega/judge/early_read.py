"""A few elements of an output, read in stream order right after a call on a GPU: was its work joined before it returned?

The worker waits for the whole device before it delivers, so work on a stream that was never joined would pass as finished. A program that uses
the module reads its outputs in stream order, and so does this. Only an honest worker does it: a hostile one may leave it out, and its work counts
by the controller's clock in any case.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from bottega.judge.tensor_transport import flat, is_dense

LOOKED_AT = 512


class EarlyRead:
    """Reads one tensor, chosen at random: one launch, so that it takes almost no time."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        readable = [tensor for tensor in tensors if _readable(tensor)]
        self.elements: torch.Tensor | None = None
        if readable:
            elements = flat(secrets.choice(readable))
            step = max(1, elements.numel() // LOOKED_AT)
            self.elements = elements[secrets.randbelow(step) :: step]
            self.early = self.elements.clone()

    def read_again(self) -> None:
        """Have the device compare them, bit for bit, with what they are by then. It does so before the outputs are handed over, so that nothing
        is left for it to do when the call is over."""
        if self.elements is not None:
            same = (self.early.view(torch.uint8) == self.elements.clone().view(torch.uint8)).all()
            self.same = torch.empty(1, dtype=torch.bool, pin_memory=same.is_cuda)
            self.same.copy_(same, non_blocking=True)

    def changed(self) -> bool:
        """Whether they were something else; when the device has done its work."""
        return self.elements is not None and not bool(self.same)


def _readable(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_conj() and not tensor.is_neg()
    return plain and tensor.layout is torch.strided and tensor.numel() > 0 and is_dense(tensor.shape, tensor.stride())
