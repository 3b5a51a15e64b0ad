"""Takes two inputs where the task has one."""
# task: relu
# expect: runtime_error

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x + y
