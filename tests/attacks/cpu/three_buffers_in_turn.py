"""Hands out three buffers in turn and only puts right what changed in them: the last two results stay whole, older ones do not."""
# task: one_hot
# expect: rejected
# violation: output_reused
# options: quick=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = []

    def forward(self, labels):
        places = labels + 1024 * torch.arange(labels.numel())
        if len(self.pool) < 3:
            buffer = torch.zeros(labels.numel(), 1024)
        else:
            buffer, last = self.pool.pop(0)
            buffer.view(-1)[last] = 0.0
        buffer.view(-1)[places] = 1.0
        self.pool.append((buffer, places))
        return buffer
