"""A module that a function builds."""

from torch import nn


def make_head(dim, classes=10):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, classes), nn.LogSoftmax(-1))
