"""Calls the library operator that the reference calls.

Correct, honest about its speed, and no kernel: where kernels are asked for it must not count as one.
"""
# task: softmax
# expect: rejected
# violation: coverage_too_low
# options: require_kernel=0.3

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
