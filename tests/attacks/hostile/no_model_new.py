"""Defines a module under another name."""
# task: relu
# expect: compile_error,runtime_error

import torch
from torch import nn


class FastModel(nn.Module):
    def forward(self, x):
        return torch.relu(x)
