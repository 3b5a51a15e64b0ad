"""Leaves out the last 37 of four million elements, as a kernel without a masked last block does.

Judge 11 could not see it: they are a hundred thousandth of the sum, on spiked inputs too.
"""
# task: squared_distance
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.mse_loss(x[:-37], y[:-37])
