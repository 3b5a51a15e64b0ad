"""Uses the tanh approximation where the reference computes the exact GELU.

Cheaper by an erf per element, different by up to 5e-4: invisible at 1e-2.
"""
# task: linear_gelu
# expect: incorrect

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x), approximate="tanh")
