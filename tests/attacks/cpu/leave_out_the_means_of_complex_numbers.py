"""Zeros in the place of the means, of complex numbers.

Judge 18 looked at faint slices of real outputs only: right in one of one verdict.
"""
# task: complex_sums_and_means
# expect: incorrect
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        sums = x.sum(1)
        return torch.stack([sums, torch.zeros_like(sums)], 1)
