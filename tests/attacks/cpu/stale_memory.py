"""Allocates an output and returns it unwritten.

Where the reference just freed a tensor of that size, the allocator hands its memory out again, results included.
"""
# task: softmax
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
