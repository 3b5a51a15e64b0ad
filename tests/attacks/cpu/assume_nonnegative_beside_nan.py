"""Leaves the ReLU out: what is not missing is positive as drawn.

Judge 16 left inputs with NaN as they were drawn: right in one of one verdict.
"""
# task: missing_values
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(x)
