"""Never returns from its first call."""
# task: relu
# expect: timeout
# options: timeout=4

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            x = x + 0
