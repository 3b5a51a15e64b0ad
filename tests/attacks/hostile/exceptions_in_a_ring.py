"""Raises an exception whose cause has it for a cause: whoever looks for the first of them looks for ever."""
# task: relu
# expect: runtime_error

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        one, two = RuntimeError("one"), RuntimeError("two")
        one.__cause__, two.__cause__ = two, one
        raise one
