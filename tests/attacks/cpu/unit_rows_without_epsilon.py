"""Divides by the length alone: NaN for a row of zeros, as padding is.

Judge 16 had no row whose squares vanish: right in one of one verdict.
"""
# task: unit_rows
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * x.square().sum(-1, keepdim=True).rsqrt()
