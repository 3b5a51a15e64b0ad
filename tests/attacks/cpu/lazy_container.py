"""Returns a list whose items are computed when they are taken out.

A harness that compares `zip(expected, got)` makes the candidate work outside the timed span.
"""
# task: row_max
# expect: incorrect,rejected,runtime_error,slower,ambiguous

import torch
from torch import nn


class OnDemand(list):
    def __init__(self, *items):
        super().__init__([None] * len(items))
        self.items = items

    def __iter__(self):
        return (compute() for compute in self.items)

    def __getitem__(self, index):
        return self.items[index]()


class ModelNew(nn.Module):
    def forward(self, x):
        twice = torch.maximum(x, x)
        return OnDemand(lambda: twice.max(dim=1).values, lambda: twice.max(dim=1).indices)
