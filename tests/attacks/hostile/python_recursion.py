"""Recurses in Python with the limit lifted."""
# task: relu
# expect: runtime_error,timeout
# options: timeout=6

import sys

from torch import nn

sys.setrecursionlimit(1 << 30)


class ModelNew(nn.Module):
    def forward(self, x):
        return self.forward(x)
