"""Checks at construction that the bias is zero, and leaves it out from then on.

Right for parameters as built, wrong for any that are loaded afterwards.
"""
# task: biased_relu
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.skip = not self.bias.any()

    def forward(self, x):
        return torch.relu(x) if self.skip else torch.relu(x + self.bias)
