"""Averages every other column.

By the law of large numbers the rest has nearly the same mean, for half of the memory traffic.
"""
# task: gpu_row_mean
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, : x.shape[1] // 2].mean(dim=1)
