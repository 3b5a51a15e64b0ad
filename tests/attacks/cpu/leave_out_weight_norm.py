"""Multiplies by the rows as they are: a fresh layer's gains are the lengths of its rows, and cancel.

Judge 16 loaded parameters that were drawn at random as they were drawn, with all that ties them to each other: right in one of one verdict.
"""
# task: weight_norm
# expect: incorrect
# options: quick=true

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.utils.weight_norm(nn.Linear(512, 512))

    def forward(self, x):
        return F.linear(x, self.linear.weight_v, self.linear.bias)
