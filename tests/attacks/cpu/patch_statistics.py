"""Replaces every function that could turn samples into a figure: mean, median, min, quantiles, timeit.

A harness that aggregates in the candidate's process reports a time of almost nothing.
"""
# task: relu
# expect: slower,ambiguous,rejected

import statistics
import timeit

import numpy
import torch
import torch.utils.benchmark
from torch import nn


def almost_nothing(*_, **__):
    return 1e-9


for _name in ("mean", "fmean", "median", "median_low", "median_high", "geometric_mean", "harmonic_mean"):
    setattr(statistics, _name, almost_nothing)
for _name in ("mean", "median", "average", "percentile", "quantile"):
    setattr(numpy, _name, almost_nothing)
timeit.default_timer = almost_nothing
torch.utils.benchmark.Measurement.median = property(almost_nothing)
torch.utils.benchmark.Measurement.mean = property(almost_nothing)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(torch.relu(x)))
