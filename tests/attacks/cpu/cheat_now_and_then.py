"""Skips the work in one call of six, at random.

Spot checks mostly see right results, while a minimum or a low quantile of the times sees the skipped calls.
"""
# task: softmax
# expect: incorrect,rejected
# options: quick=false

import random

import torch
from torch import nn


class ModelNew(nn.Module):
    result = None

    def forward(self, x):
        if self.result is None or random.random() > 1 / 6:
            self.result = torch.softmax(x, dim=1)
        return self.result
