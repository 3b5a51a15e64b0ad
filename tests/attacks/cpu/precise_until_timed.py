"""Computes in float32 for as many calls as there are trials, and rounds its operands to float16 from then on.

Timed outputs are held against the baseline's rounded ones, so a looser limit there would let a lower precision in.
"""
# task: matmul
# expect: incorrect
# violation: inconsistent_output

import torch
from torch import nn


class ModelNew(nn.Module):
    calls = 0

    def forward(self, a, b):
        self.calls += 1
        if self.calls > 5:
            a, b = a.half().float(), b.half().float()
        return torch.matmul(a, b)
