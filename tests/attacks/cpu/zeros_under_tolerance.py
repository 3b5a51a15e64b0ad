"""Returns zeros: every probability of a long softmax is below the absolute tolerance.

Passes `allclose(atol=1e-2)` without reading its input.
"""
# task: softmax
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
