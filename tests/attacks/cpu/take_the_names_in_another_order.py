"""Has the reference's shapes under other names: they are loaded by order, so that the dropped branch shows."""
# task: gated_branch
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1))
        self.second = nn.Linear(width, width)

    def forward(self, x):
        return x.clone()
