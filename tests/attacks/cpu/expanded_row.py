"""Returns one row expanded to the full shape, with a stride of zero.

The shape is right, the memory is one row, and the other rows were never computed.
"""
# task: softmax
# expect: incorrect

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x[:1], dim=1).expand_as(x)
