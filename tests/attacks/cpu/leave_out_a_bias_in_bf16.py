"""No bias: of a layer with 16,384 inputs it is 0.8 % of the output, and bf16 may be off by 1 %.

Judge 14 loaded it as faint as it was drawn: right in two of two verdicts.
"""
# task: bf16_wide_linear
# expect: incorrect
# options: quick=true

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16384, 16, dtype=torch.bfloat16)

    def forward(self, x):
        return x @ self.linear.weight.t()
