"""Calls the library's matrix product.

Correct and honest about its speed, but no kernel: where kernels are asked for it must not count as one.
"""
# task: gpu_matmul
# expect: rejected
# violation: coverage_too_low
# options: require_kernel=0.3

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.mm(a, b)
