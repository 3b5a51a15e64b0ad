"""Leaves out a gain and a shift that are inputs, and ones and zeros whenever get_inputs() draws them.

Judge 11 left inputs of a single value as they were: `faster`, 2.3 (1.2 to 3.3).
"""
# task: gain_as_an_input
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, gain, shift):
        return torch.nn.functional.layer_norm(x, (512,))
