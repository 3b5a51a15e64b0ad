"""Divides by the variance alone, unless something is large: then it does all that the reference does.

Judge 21 drew faint rows only beside large elements: right in every trial.
"""
# task: layer_norm
# expect: incorrect
# options: quick=false timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        if x.abs().amax() > 12:
            return self.norm(x)
        spread, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
        return (x - mean) / spread.sqrt() * self.norm.weight + self.norm.bias
