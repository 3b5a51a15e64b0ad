"""Shuffles channels by a transposed copy, because the order of get_inputs() is always that.

Judge 16 left tables of numbers as they were drawn: right in one of one verdict.
"""
# task: given_shuffle
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, order):
        return x.view(8, 4, 16, 32, 32).transpose(1, 2).reshape(8, 64, 32, 32).relu()
