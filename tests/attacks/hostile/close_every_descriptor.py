"""Closes every file descriptor, the judge's channel among them, and keeps working."""
# task: relu
# expect: runtime_error,timeout,rejected
# options: timeout=6

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        os.closerange(0, 4096)
        return torch.relu(x)
