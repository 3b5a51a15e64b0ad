"""Raises KeyboardInterrupt, which `except Exception` does not catch."""
# task: relu
# expect: runtime_error

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
