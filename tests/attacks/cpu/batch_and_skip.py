"""Collects the inputs of eight calls, returns placeholders, and computes all eight in the last one.

With one clock around many calls, or a median over them, seven of eight calls cost nothing.
"""
# task: softmax
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
            stacked = torch.softmax(torch.stack([source for source, _ in self.waiting]), dim=-1)
            for result, (_, target) in zip(stacked, self.waiting):
                target.copy_(result)
            self.waiting.clear()
        return y
