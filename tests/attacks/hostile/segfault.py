"""Writes to address zero."""
# task: relu
# expect: runtime_error

import ctypes

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ctypes.memset(0, 1, 1)
        return x
