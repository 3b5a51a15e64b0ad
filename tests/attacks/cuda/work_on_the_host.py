"""Copies its input to the host, computes there, and copies the result back.

A time that sums up kernels sees none at all: infinitely fast, and hundreds of times slower.
"""
# task: gpu_row_mean
# expect: slower,ambiguous,rejected

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.mean(x.cpu(), dim=1).to(x.device)
