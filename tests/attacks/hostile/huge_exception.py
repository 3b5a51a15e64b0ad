"""Raises an exception whose text has two hundred million characters."""
# task: relu
# expect: runtime_error

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise RuntimeError("no " * (1 << 26))
