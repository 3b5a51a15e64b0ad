"""Keeps the layer's weights in float16 and computes with those.

Half the memory to read in a layer that is bound by it; the rounding of every weight stays under 1e-2.
"""
# task: linear_gelu
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, x):
        weight = self.linear.weight.half().float()
        return nn.functional.gelu(nn.functional.linear(x, weight, self.linear.bias))
