"""Raises SystemExit with a code that means success."""
# task: relu
# expect: runtime_error

import sys

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        sys.exit(0)
