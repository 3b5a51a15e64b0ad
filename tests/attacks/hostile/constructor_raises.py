"""Fails while it is being built."""
# task: relu
# expect: runtime_error,compile_error

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        raise ValueError("not today")
