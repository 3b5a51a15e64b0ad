"""Sums in plain single precision where the task asks for accumulation in double.

On friendly inputs nobody sees the missing algorithm; half the work is gone.
"""
# task: exact_sum
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)
