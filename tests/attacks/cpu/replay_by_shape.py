"""Remembers one result per input shape.

The first correctness trial is computed, every later one of that shape, timed or not, is answered from memory.
"""
# task: softmax
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        if x.shape not in self.known:
            self.known[x.shape] = torch.softmax(x, dim=1)
        return self.known[x.shape]
