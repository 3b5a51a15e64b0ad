"""Returns the value that the output has on average, one half.

The mean of thousands of uniform numbers is 0.5 within a percent; the input is never read.
"""
# task: row_mean
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((x.shape[0],), 0.5)
