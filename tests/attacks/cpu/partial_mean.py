"""Averages one half of every row.

By the law of large numbers the other half has nearly the same mean: twice as fast, off by half a percent.
"""
# task: row_mean
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, : x.shape[1] // 2].mean(dim=1)
