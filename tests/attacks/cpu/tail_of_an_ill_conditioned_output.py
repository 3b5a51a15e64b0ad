"""Eight elements at a time and no tail: the last seven are never written. Beside quotients of almost nothing judge 14 took them for rounding.

It allowed eight wrong elements, NaN or not, wherever the reference has some: right in two of two verdicts.
"""
# task: quotients
# expect: incorrect
# options: quick=true

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.above = nn.Linear(width, width, bias=False)
        self.below = nn.Linear(width, width, bias=False)

    def forward(self, x):
        quotients = self.above(x) / self.below(x)
        quotients.view(-1)[-7:] = float("nan")
        return quotients
