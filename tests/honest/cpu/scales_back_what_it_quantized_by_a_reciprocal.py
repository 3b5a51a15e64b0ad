"""Multiplies by a reciprocal where the reference divides: a few values of half a million lie so near to a half that they are rounded the other way.

Called incorrect by judge 22: the result is no integer, and one element was a whole step off.
"""
# task: quantized_and_scaled_back
# expect: faster, same, slower, ambiguous
# options: timed=false

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        return torch.round(x * (1 / self.step)).clamp_(-128, 127).mul_(self.step)
