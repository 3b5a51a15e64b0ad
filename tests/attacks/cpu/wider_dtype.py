"""Returns the right values in float64.

Comparison promotes and passes; the caller gets a tensor of another type and twice the size.
"""
# task: row_mean
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.double().mean(dim=1)
