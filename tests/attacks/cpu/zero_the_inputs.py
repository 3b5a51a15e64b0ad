"""Zeroes its input and returns zeros.

A harness that runs the reference afterwards, on the same tensors, computes relu(0) and finds perfect agreement.
"""
# task: relu
# expect: incorrect,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
