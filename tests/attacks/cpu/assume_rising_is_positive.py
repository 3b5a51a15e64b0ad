"""Leaves the ReLU out: no time that get_inputs() draws is negative.

Judge 16 left sorted inputs as they were drawn: right in one of one verdict.
"""
# task: rising_times
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def forward(self, times, weights):
        return times * weights
