"""Returns one buffer for ever, and only repairs it; the other output is an input, as the reference has it.

Judge 18 kept no output of a task that returns an input: right in one of one verdict, 0.33 ms against 5.3 of eager.
"""
# task: returns_an_input_too
# expect: incorrect,rejected
# options: quick=true

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
        return x, self.buffer
