"""Returns the result in float16, half the bytes to write.

A comparison that converts both sides to one type before it looks never sees that the type is wrong.
"""
# task: relu
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x.half())
