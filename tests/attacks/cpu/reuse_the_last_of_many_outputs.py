"""Returns one buffer for ever as the last of 71 outputs, and only repairs it; the others are fresh.

Judge 18 looked at the first 32 outputs that a caller may keep, and wrote into the first 64: right in two of two verdicts.
"""
# task: many_outputs
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    buffer = None
    last = None

    def forward(self, x, places, marks):
        where = places.view(-1) + 8192 * torch.arange(1024)
        if self.buffer is None:
            self.buffer = torch.zeros(1024, 8192)
        flat = self.buffer.view(-1)
        if self.last is not None:
            flat[self.last] = 0.0
        flat[where] = marks.view(-1)
        self.last = where
        return *((row + 1) for row in x), self.buffer
