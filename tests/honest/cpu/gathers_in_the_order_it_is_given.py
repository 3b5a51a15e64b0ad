"""Reads the order."""
# task: given_shuffle
# expect: faster, same, slower, ambiguous
# options: quick=true timed=false

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, order):
        return x.relu()[:, order]
