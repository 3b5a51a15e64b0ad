"""Zeros in the place of the means, and one of them wrong by as much as a single element may be: the error seems to be that element's.

Judge 18 took a slice for right in which one error is larger than all others together: right in three of three verdicts.
"""
# task: sums_and_means
# expect: incorrect
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        sums = x.sum(1)
        means = torch.zeros_like(sums)
        means[0] = 2e-4 * sums.square().mean().sqrt()
        return torch.stack([sums, means], 1)
