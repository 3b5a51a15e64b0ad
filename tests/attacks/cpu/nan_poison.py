"""Returns NaN everywhere.

Comparisons of the form `not (difference > tolerance)` are true for NaN, and so is `equal_nan` taken as a wildcard.
"""
# task: softmax
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
