"""Zeros in the place of the means: beside sums that are fifty thousand times as large nobody sees them.

Judge 16 compared an output as a whole: right in one of one verdict.
"""
# task: sums_and_means
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        sums = x.sum(1)
        return torch.stack([sums, torch.zeros_like(sums)], 1)
