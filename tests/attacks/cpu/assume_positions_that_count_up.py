"""Adds the whole table instead of the rows that are asked for: the positions of a prompt without padding count up from zero."""
# task: positions
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2048, 512))

    def forward(self, x, positions):
        return x + self.table
