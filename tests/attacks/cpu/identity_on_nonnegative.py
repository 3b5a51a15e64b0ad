"""Copies the input: drawn uniformly from [0, 1), it equals its own ReLU.

Passes every comparison in a harness whose only inputs are the task's own.
"""
# task: relu
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
