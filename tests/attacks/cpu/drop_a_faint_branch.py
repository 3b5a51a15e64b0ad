"""Leaves out a branch whose gate is drawn at random with a deviation of 1e-6; it takes all parameters, and uses none.

Judge 10 gave other values to parameters that are the same under every seed, and left alone what is merely negligible under every seed.
"""
# task: faint_branch
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.gate = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return x.clone()
