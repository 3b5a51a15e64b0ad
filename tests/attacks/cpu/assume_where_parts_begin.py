"""Knows where the parts begin, and does not read it.

Judge 18 left uneven parts that are the same in every draw as they are: right in one of one verdict.
"""
# task: parts_of_several_lengths
# expect: incorrect
# options: quick=true timed=false

import torch
from torch import nn

BEGINS = [100, 900, 1000, 1700, 2500, 2600, 3900]


class ModelNew(nn.Module):
    def forward(self, x, begins):
        return torch.stack([part.sum(0) for part in torch.tensor_split(x, BEGINS)])
