"""Leaves out the last 37 of four million elements, as a kernel without a masked last block does.

Judge 11 called it right in trials eight times of eight: they are a hundred thousandth of the sum. Many timed rounds could show it by chance.
"""
# task: squared_distance
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.mse_loss(x[:-37], y[:-37])
