"""Forgets to return its result."""
# task: relu
# expect: incorrect,runtime_error

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.relu(x)
