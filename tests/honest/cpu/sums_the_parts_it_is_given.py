"""Sums each part from where it is said to begin to where the next one does."""
# task: parts_of_several_lengths
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, begins):
        part = torch.searchsorted(begins, torch.arange(len(x)), right=True)
        return x.new_zeros(len(begins) + 1, x.shape[1]).index_add_(0, part, x)
