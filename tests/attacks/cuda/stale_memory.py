"""Returns an uninitialised tensor.

The caching allocator gives out the block that the reference's result was just freed from.
"""
# task: gpu_softmax
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
