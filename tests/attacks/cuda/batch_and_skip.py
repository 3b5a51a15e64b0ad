"""Collects eight inputs, returns placeholders, and computes all eight in one launch.

One span around many calls, divided by their number, hides that seven of them did nothing.
"""
# task: gpu_softmax
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.waiting = []

    def forward(self, x):
        y = torch.empty_like(x)
        self.waiting.append((x, y))
        if len(self.waiting) == 8:
            for source, target in self.waiting:
                target.copy_(torch.softmax(source, dim=1))
            self.waiting.clear()
        return y
