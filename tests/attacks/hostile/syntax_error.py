"""Does not parse."""
# task: relu
# expect: compile_error

from torch import nn


class ModelNew(nn.Module)
    def forward(self, x):
        return x
