"""Returns one buffer for ever: what the last call wrote is put back to zero, and what this call needs is written.

It saves all the zeros, and every result that a caller still holds is corrupted by the next call.
"""
# task: one_hot
# expect: rejected
# violation: output_reused

import torch
from torch import nn


class ModelNew(nn.Module):
    buffer = None
    last = None

    def forward(self, labels):
        places = labels + 1024 * torch.arange(labels.numel(), device=labels.device)
        if self.buffer is None:
            self.buffer = torch.zeros(labels.numel(), 1024, device=labels.device)
        flat = self.buffer.view(-1)
        if self.last is not None:
            flat[self.last] = 0.0
        flat[places] = 1.0
        self.last = places
        return self.buffer
