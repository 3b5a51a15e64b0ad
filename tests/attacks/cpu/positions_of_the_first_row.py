"""Reads the positions of the first sequence for all of them: without padding they are the same.

Judge 14 moved all rows of positions on by one number: right in one of one verdict.
"""
# task: positions
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2048, 512))

    def forward(self, x, positions):
        return x + self.table[positions[0]]
